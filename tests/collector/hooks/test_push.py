"""What both sides tell in push mode: decode waits to be written to, prefill writes."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.collector.hooks import fake_connectors
from tests.collector.hooks.hooked import Event, Hooked
from tests.collector.hooks.test_worker import NixlAgent, Topology

from falseok_collector.attributes import KvReadEnd, KvReadStart, KvWriteEnd, KvWriteStart, SchedWaitRemote

DECODE, PREFILL = "cmpl-r-0-dddddddd", "cmpl-r-0-pppppppp"
HERE, THERE = "engine-here", "engine-there"


class PushWorker:
    """Stands for `NixlPushConnectorWorker`: what the writer thread does is up to a test."""

    engine_id = HERE
    tp_rank = 1
    block_size = 16

    def __init__(self) -> None:
        self.nixl_wrapper = NixlAgent()
        self.transfer_topo = Topology()
        self._recving_metadata: dict[str, Any] = {}
        self._sending_transfers: dict[str, list[Any]] = {}
        self.act: Callable[[PushWorker, str], None] = post(1)
        self.results: Any = SimpleNamespace(finished_sending=set(), finished_recving=set())

    def start_load_kv(self, metadata: Any) -> None:
        """Takes over what the scheduler says."""
        self._recving_metadata.update(metadata.reqs_to_recv)

    def _do_start_push_kv(self, request_id: str, local_block_ids: Any, registration_data: Any) -> None:
        self.act(self, request_id)

    def get_transfer_results(self) -> Any:
        """What ended since the last step."""
        return self.results

    def _log_failure(
        self, failure_type: str, req_id: str | None, msg: str = "", error: Any = None, meta: Any = None
    ) -> None:
        """vLLM logs here."""

    def _handle_failed_transfer(self, req_id: str, handle: Any) -> None:
        """Gives up."""


class Facade:
    """Stands for the connector that the runner holds."""

    def __init__(self, worker: PushWorker) -> None:
        self.connector_worker = worker

    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        """Passed on."""
        return self.connector_worker.get_transfer_results()


def post(handles: int) -> Callable[[PushWorker, str], None]:
    """The writer posts so many handles of 8 descriptors."""

    def act(worker: PushWorker, request_id: str) -> None:
        for _ in range(handles):
            worker.nixl_wrapper.make_prepped_xfer("WRITE", 1, list(range(8)), 2, list(range(8)))

    return act


def nothing(worker: PushWorker, request_id: str) -> None:
    """A handshake has to come first."""


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    """Hooks on the stand-ins, put back afterwards."""
    made = Hooked()
    made.wrap(
        PushWorker,
        start_load_kv="worker.push_step",
        _do_start_push_kv="worker.push_write",
        get_transfer_results="worker.push_results",
        _log_failure="worker.log_failure",
        _handle_failed_transfer="worker.failed_transfer",
    )
    made.wrap(Facade, get_transfer_results="worker.results")
    yield made
    for probe in made.probes:
        probe.uninstall()
    assert [] == made.reports


@pytest.fixture
def worker(hooked: Hooked) -> PushWorker:
    """A worker whose NIXL agent is watched."""
    made = PushWorker()
    for probe in hooked.agent_probes:
        probe.install(made.nixl_wrapper, probe.name.rpartition(".")[2])
    return made


def metadata(expected: dict[str, Any] | None = None, finished: dict[str, Any] | None = None) -> Any:
    """What the scheduler sends its workers for a step."""
    return SimpleNamespace(reqs_to_recv=expected or {}, push_finished_blocks=finished or {})


def expected(blocks: tuple[list[int], ...] = ([5, 6], [7])) -> Any:
    """A request that waits to be written to."""
    return SimpleNamespace(
        local_block_ids=blocks, remote=SimpleNamespace(engine_id=THERE, request_id=PREFILL, block_ids=())
    )


def registration() -> dict[str, Any]:
    """What decode told prefill: its engine, its request, its blocks."""
    return {"decode_engine_id": THERE, "request_id": DECODE, "local_block_ids": [[1, 2], [3]]}


def received(worker: PushWorker, *requests: str) -> None:
    """The step in which the connector reports requests as received."""
    worker.results.finished_recving = set(requests)
    Facade(worker).get_transfer_results(set())


def let_go(worker: PushWorker, *requests: str) -> None:
    """The step in which the connector lets go of requests' blocks."""
    worker.results.finished_sending = set(requests)
    Facade(worker).get_transfer_results(set())


def write(worker: PushWorker) -> None:
    """Prefill finished a request, and decode's registration is there."""
    worker.start_load_kv(metadata(finished={PREFILL: ([1, 2], [3])}))
    worker._do_start_push_kv(PREFILL, ([1, 2], [3]), registration())


def done(worker: PushWorker, *handles: str) -> None:
    """vLLM's polling finds handles done."""
    for handle in handles:
        worker.nixl_wrapper.get_xfer_telemetry(handle)
        worker.nixl_wrapper.release_xfer_handle(handle)


def write_end(event: Event) -> KvWriteEnd:
    """The end of a write, without its duration."""
    assert isinstance(event.attributes, KvWriteEnd)
    return msgspec.structs.replace(event.attributes, duration_seconds=0.0)


def test_decode_waits_and_is_written_to(hooked: Hooked, worker: PushWorker) -> None:
    """It owns no handle: the receipt is complete when vLLM has counted the notices of all writers."""
    worker.start_load_kv(metadata(expected={DECODE: expected()}))
    started = hooked.only()
    assert (
        KvReadStart(
            remote_engine_id=THERE,
            remote_request_id=PREFILL,
            mode="push",
            connector="NixlPushConnector",
            local_block_counts=[2, 1],
            local_block_size=16,
        )
        == started.attributes
    )
    assert (HERE, 1, DECODE, f"{THERE}/{PREFILL}") == (*started.record[4:7], started.record.transfer_id)
    received(worker, DECODE)
    ended = hooked.only().attributes
    assert isinstance(ended, KvReadEnd)
    assert ("ok", "push", "NixlPushConnector", "") == (
        ended.outcome,
        ended.mode,
        ended.connector,
        ended.failure_type,
    )


def test_a_request_without_blocks_expects_nothing(hooked: Hooked, worker: PushWorker) -> None:
    """It left before it was scheduled; no registration is sent for it."""
    worker.start_load_kv(metadata(expected={DECODE: expected(())}))
    assert [] == hooked.events()


def test_a_registration_that_does_not_reach_prefill_fails_the_receipt(
    hooked: Hooked, worker: PushWorker
) -> None:
    """Before 0.30 the request is then reported as received all the same; that is no success."""
    worker.start_load_kv(metadata(expected={DECODE: expected()}))
    hooked.events()
    worker._log_failure("push_reg_handshake_failed", DECODE, error=RuntimeError("refused"))
    worker._handle_failed_transfer(DECODE, None)
    received(worker, DECODE)
    ended = hooked.only().attributes
    assert isinstance(ended, KvReadEnd)
    assert ("failed", "push_reg_handshake_failed", "handshake", "push", THERE, "refused") == (
        ended.outcome,
        ended.failure_type,
        ended.stage,
        ended.mode,
        ended.remote_engine_id,
        ended.error_message,
    )


def test_one_registration_of_several_may_get_lost(hooked: Hooked, worker: PushWorker) -> None:
    """Those that arrived may still be answered with writes, which then complete the receipt."""
    worker.start_load_kv(metadata(expected={DECODE: expected()}))
    worker._log_failure("push_reg_notif_failed", DECODE, error=RuntimeError("lost"))
    received(worker, DECODE)
    outcomes = [getattr(event.attributes, "outcome", "") for event in hooked.events()]
    assert ["", "failed", "ok"] == outcomes


def test_a_write_that_succeeds(hooked: Hooked, worker: PushWorker) -> None:
    """Prefill tells who is written to, with how many handles, and what NIXL moved."""
    worker.act = post(2)
    write(worker)
    started = hooked.only()
    assert (
        KvWriteStart(
            remote_engine_id=THERE,
            remote_request_id=DECODE,
            local_block_counts=[2, 1],
            remote_block_counts=[2, 1],
            handles_posted=2,
            descriptors=16,
        )
        == started.attributes
    )
    assert (HERE, 1, PREFILL, f"{HERE}/{PREFILL}") == (*started.record[4:7], started.record.transfer_id)
    done(worker, "handle-1", "handle-2")
    let_go(worker, PREFILL)
    assert KvWriteEnd(
        remote_engine_id=THERE,
        remote_request_id=DECODE,
        outcome="ok",
        bytes=8192,
        descriptors=16,
        handles=2,
    ) == write_end(hooked.only())


def test_results_of_earlier_versions_are_read_as_well(hooked: Hooked, worker: PushWorker) -> None:
    """Before 0.30 results are a pair: sent, received."""
    write(worker)
    done(worker, "handle-1")
    hooked.events()
    worker.results = ({PREFILL}, set())
    worker.get_transfer_results()
    assert "ok" == write_end(hooked.only()).outcome


def test_a_write_begins_when_its_handshake_is_done(hooked: Hooked, worker: PushWorker) -> None:
    """The first attempt posts nothing and starts a handshake; the writer comes back to it."""
    worker.act = nothing
    write(worker)
    assert [] == hooked.events()
    worker.act = post(1)
    worker._do_start_push_kv(PREFILL, ([1, 2], [3]), registration())
    assert ["kv.write.start"] == [event.name for event in hooked.events()]


def test_a_flat_list_of_blocks_is_one_group(hooked: Hooked, worker: PushWorker) -> None:
    """Registrations of a cache with one group may come as such."""
    flat = registration() | {"local_block_ids": [1, 2, 3]}
    worker._do_start_push_kv(PREFILL, [4, 5, 6], flat)
    started = hooked.only().attributes
    assert isinstance(started, KvWriteStart)
    assert ([3], [3]) == (started.local_block_counts, started.remote_block_counts)


@pytest.mark.parametrize(
    "failure_type", ["push_handshake_failed", "transfer_setup_failed", "transfer_failed"]
)
def test_a_failed_write_is_no_failed_read(hooked: Hooked, worker: PushWorker, failure_type: str) -> None:
    """vLLM logs it with prefill's request id; that request reads nothing, and is not also let go of as written."""
    write(worker)
    hooked.events()
    worker._log_failure(failure_type, PREFILL, error=RuntimeError("no"))
    worker._handle_failed_transfer(PREFILL, "handle-1")
    let_go(worker, PREFILL)
    ended = write_end(hooked.only())
    assert ("failed", failure_type, "RuntimeError", "no", DECODE) == (
        ended.outcome,
        ended.failure_type,
        ended.error_class,
        ended.error_message,
        ended.remote_request_id,
    )


def test_a_write_that_raises_in_the_writer(hooked: Hooked, worker: PushWorker) -> None:
    """The thread goes on, with the exception in the log; the exception is the engine's own."""

    def disagree(worker: PushWorker, request_id: str) -> None:
        raise AssertionError("push block-count mismatch")

    worker.act = disagree
    with pytest.raises(AssertionError, match="mismatch"):
        write(worker)
    ended = write_end(hooked.only())
    assert ("failed", "exception", "push block-count mismatch") == (
        ended.outcome,
        ended.failure_type,
        ended.error_message,
    )


def test_a_handshake_that_fails_without_a_request_id(hooked: Hooked) -> None:
    """0.26 makes it in the writer's thread and only logs."""

    class Earlier(PushWorker):
        """Has the method that makes it."""

        def _ensure_d_handshake(self) -> bool:
            return False

    worker = Earlier()
    worker.act = nothing
    write(worker)
    assert "push_handshake_failed" == write_end(hooked.only()).failure_type


def test_blocks_that_decode_never_asked_for(hooked: Hooked, worker: PushWorker) -> None:
    """Their lease ends without a write."""
    worker.start_load_kv(metadata(finished={PREFILL: ([1],)}))
    let_go(worker, PREFILL)
    assert "unmatched" == write_end(hooked.only()).outcome


def test_blocks_let_go_of_while_they_are_written(hooked: Hooked, worker: PushWorker) -> None:
    """The lease ended first: what decode gets may be another request's."""
    worker.act = post(2)
    write(worker)
    done(worker, "handle-1")
    hooked.events()
    let_go(worker, PREFILL)
    assert "expired" == write_end(hooked.only()).outcome


def test_handles_of_the_writer_thread_are_not_taken_for_the_engines_own(
    hooked: Hooked, worker: PushWorker
) -> None:
    """What this thread posts meanwhile belongs to no write."""
    posting, go_on = threading.Event(), threading.Event()

    def slow(worker: PushWorker, request_id: str) -> None:
        posting.set()
        assert go_on.wait(10)
        post(1)(worker, request_id)

    worker.act = slow
    thread = threading.Thread(target=write, args=(worker,))
    thread.start()
    assert posting.wait(10)
    post(3)(worker, "")
    go_on.set()
    thread.join()
    started = hooked.only().attributes
    assert isinstance(started, KvWriteStart)
    assert 1 == started.handles_posted


class NixlPushConnector(fake_connectors.NixlConnector):
    """The scheduler's side, under the name that tells the mode."""

    on_new_request = fake_connectors.Base.on_new_request
    update_state_after_alloc = fake_connectors.Base.update_state_after_alloc


def test_a_wait_in_push_mode_says_so(hooked: Hooked) -> None:
    """The verdict must not take it for a read, even where no event of the worker comes."""
    hooked.wrap(NixlPushConnector, on_new_request="core.admit", update_state_after_alloc="core.blocks")
    connector = NixlPushConnector()
    asked = fake_connectors.request(DECODE)
    connector.on_new_request(asked)
    connector.update_state_after_alloc(asked, SimpleNamespace(blocks=([1, 2],)), 32)
    waits = [event.attributes for event in hooked.events() if isinstance(event.attributes, SchedWaitRemote)]
    assert ["NixlPushConnector"] == [wait.connector for wait in waits]
