"""When a prefill worker lets go of offered blocks, why, and which completions came too late."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.collector.hooks.hooked import Hooked

from falseok_collector.attributes import KvLeaseEnd, KvNotice


class Agent:
    """Stands for the NIXL agent: holds messages until they are fetched."""

    def __init__(self) -> None:
        self.messages: dict[str, list[bytes]] = {}

    def get_new_notifs(self) -> dict[str, list[bytes]]:
        """Messages since the last call."""
        messages, self.messages = self.messages, {}
        return messages


class Worker:
    """Stands for a pull worker on prefill; books as vLLM does."""

    engine_id = "engine-here"
    tp_rank = 1

    def __init__(self) -> None:
        self.nixl_wrapper = Agent()
        self._reqs_to_send: dict[str, float] = {}
        self._reqs_to_process: set[str] = set()
        self._replicated_pcp_done_sending: set[str] = set()
        self.expired: set[str] = set()
        self.counts: dict[str, int] = {}

    def offer(self, *request_ids: str) -> None:
        """Requests whose blocks wait for decode."""
        self._reqs_to_process.update(request_ids)
        self._reqs_to_send.update(dict.fromkeys(request_ids, 30.0))

    def _get_new_notifs(self) -> set[str]:
        done: set[str] = set()
        for messages in self.nixl_wrapper.get_new_notifs().values():
            for message in messages:
                if message.startswith(b"HB:"):
                    continue
                request_id, expected = message.decode().rsplit(":", 1)
                if request_id not in self._reqs_to_process:
                    continue
                self.counts[request_id] = self.counts.get(request_id, 0) + 1
                if self.counts[request_id] == int(expected):
                    done.add(request_id)
                    self._reqs_to_process.discard(request_id)
                    self._reqs_to_send.pop(request_id, None)
        return done

    def results(self) -> set[str]:
        """Notified, expired and replicated requests of this step."""
        done = self._get_new_notifs() | self.expired | self._replicated_pcp_done_sending
        for request_id in self.expired:
            self._reqs_to_process.discard(request_id)
            self._reqs_to_send.pop(request_id, None)
        self.expired, self._replicated_pcp_done_sending = set(), set()
        return done


class Facade:
    """Stands for the connector."""

    def __init__(self, worker: Worker) -> None:
        self.connector_worker = worker

    def get_transfer_results(self, finished_req_ids: Any = None) -> Any:
        """From 0.30 on."""
        return SimpleNamespace(finished_sending=self.connector_worker.results(), finished_recving=None)


class Prefill:
    """A prefill worker with its hooks."""

    def __init__(self) -> None:
        self.hooked = Hooked()
        self.worker = Worker()
        self._facade = Facade(self.worker)
        self.hooked.worker.leases.watch(self.worker)
        self.hooked.wrap(Facade, get_transfer_results="worker.results")
        self.hooked.wrap(Worker, _get_new_notifs="worker.notices")
        for probe in self.hooked.worker.nixl_probes:
            if probe.name == "nixl.get_new_notifs":
                probe.install(self.worker.nixl_wrapper, "get_new_notifs")

    def step(self, *messages: bytes) -> list[Any]:
        """One engine step in which these messages arrive: what is told, with its transfer."""
        self.worker.nixl_wrapper.messages = {"decode": list(messages)}
        self._facade.get_transfer_results()
        return [
            (event.record.transfer_id, event.record.rank, event.attributes) for event in self.hooked.events()
        ]


@pytest.fixture
def prefill() -> Iterator[Prefill]:
    """A prefill worker on stand-ins."""
    made = Prefill()
    yield made
    for probe in made.hooked.probes:
        probe.uninstall()


def test_blocks_that_all_consumers_read(prefill: Prefill) -> None:
    """Two decode ranks read: the lease ends with the second notice."""
    prefill.worker.offer("r")
    assert [] == prefill.step(b"r:2", b"HB:r")
    ended = KvLeaseEnd(reason="read", notifications=2, notifications_expected=2)
    assert [("engine-here/r", 1, ended)] == prefill.step(b"r:2")


def test_a_lease_that_ran_out(prefill: Prefill) -> None:
    """With the notices that had come: one of two consumers was still reading."""
    prefill.worker.offer("r")
    prefill.step(b"r:2")
    prefill.worker.expired = {"r"}
    ended = KvLeaseEnd(reason="expired", notifications=1, notifications_expected=2)
    assert [("engine-here/r", 1, ended)] == prefill.step()


def test_blocks_that_another_rank_hands_out(prefill: Prefill) -> None:
    """Nobody was to read them here."""
    prefill.worker._replicated_pcp_done_sending = {"r"}
    assert [("engine-here/r", 1, KvLeaseEnd(reason="replicated"))] == prefill.step()


def test_a_notice_after_the_lease(prefill: Prefill) -> None:
    """The transfer was ours, and its blocks may have been reused while they were read."""
    prefill.worker.offer("r")
    prefill.worker.expired = {"r"}
    prefill.step()
    assert [("engine-here/r", 1, KvNotice(known=True))] == prefill.step(b"r:1")


def test_a_notice_for_a_transfer_nobody_offered(prefill: Prefill) -> None:
    """As after a restart under the same address."""
    assert [("engine-here/x", 1, KvNotice(known=False))] == prefill.step(b"x:1")


@pytest.mark.parametrize("message", [b"\xff\xfe:1", b"", b"r:many", b":"])
def test_garbage_does_not_count_as_our_error(prefill: Prefill, message: bytes) -> None:
    """A peer may send anything."""
    prefill.worker.offer("r")
    prefill.worker.nixl_wrapper.messages = {"decode": [message]}
    prefill.worker.nixl_wrapper.get_new_notifs()
    assert [0] == [probe.errors for probe in prefill.hooked.worker.nixl_probes if probe.calls]
