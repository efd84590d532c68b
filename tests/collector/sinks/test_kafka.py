"""The Kafka sink's decisions, with a client that can be told to fail; the real one is in tests/kafka."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from falseok_collector.settings import Settings
from falseok_collector.sinks import kafka as kafka_module
from falseok_collector.sinks.kafka import KafkaSink
from falseok_collector.sinks.kafka_client import KafkaClient
from falseok_collector.sinks.kafka_messages import Message


class Cluster:
    """What brokers there are, and what they hold."""

    def __init__(self) -> None:
        self.up = True
        self.connections = 0
        self.confirm = 10**9
        """Messages confirmed from now on before the brokers go away."""
        self.lines: list[bytes] = []

    def connect(self, settings: Settings) -> KafkaClient:
        """A client, if the brokers are there."""
        self.connections += 1
        if not self.up:
            raise ConnectionRefusedError("sasl://user:password@broker refused")
        return Client(self)


class Client(KafkaClient):
    """A connection to a `Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def send(
        self, messages: Sequence[Message], remaining: Callable[[float], float]
    ) -> tuple[int, Exception | None]:
        """Confirm as many as the cluster may."""
        for number, message in enumerate(messages):
            if not self.cluster.confirm:
                self.cluster.up = False
                return number, TimeoutError("sasl://user:password@broker timed out")
            self.cluster.confirm -= 1
            self.cluster.lines += message.lines
        return len(messages), None

    def close(self) -> None:
        """Nothing to end."""

    def abandon(self) -> None:
        """Nothing to let go of."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_module, "RETRY_SECONDS", 1e-6)
    monkeypatch.setattr(kafka_module, "RETRY_SECONDS_MAX", 1e-6)
    monkeypatch.setattr(kafka_module, "is_too_large", lambda _: False)


def sink_of(cluster: Cluster, directory: Path) -> KafkaSink:
    """A sink of that cluster."""
    return KafkaSink(Settings(spool_dir=str(directory)), "boot", connect=cluster.connect)


def numbered(first: int, last: int) -> list[bytes]:
    """Events of two engines in turn, so that every line is a message of its own."""
    return [b'{"engine_id":"e%d","seq":%d}' % (number % 2, number) for number in range(first, last + 1)]


def test_while_the_brokers_are_there_nothing_touches_the_disk(tmp_path: Path) -> None:
    """Connected with the first event, not before."""
    cluster = Cluster()
    sink = sink_of(cluster, tmp_path)
    assert 0 == cluster.connections
    sink.write(numbered(1, 10))
    sink.write(numbered(11, 20))
    assert (numbered(1, 20), 1, "ok", 20) == (
        cluster.lines,
        cluster.connections,
        sink.counts.condition,
        sink.counts.sent,
    )
    sink.close()
    assert [] == list(tmp_path.iterdir())


def test_from_the_first_unconfirmed_event_on_everything_waits_its_turn(
    tmp_path: Path, swallowed_errors: list[str]
) -> None:
    """Later events go behind what waits, although the brokers are back by then: order holds, nothing is lost."""
    cluster = Cluster()
    cluster.confirm = 3
    sink = sink_of(cluster, tmp_path)
    sink.write(numbered(1, 10))
    assert ("spooling", 3, 7, 1, "TimeoutError") == (
        sink.counts.condition,
        sink.counts.sent,
        sink.counts.waiting,
        sink.counts.errors,
        sink.counts.last_error,
    )
    cluster.up, cluster.confirm = True, 10**9
    sink.write(numbered(11, 20))
    assert (numbered(1, 3), 17) == (cluster.lines, sink.counts.waiting)
    while not sink.maintain():
        pass
    assert (numbered(1, 20), 0, "ok") == (cluster.lines, sink.counts.waiting, sink.counts.condition)
    sink.write(numbered(21, 22))
    assert numbered(1, 22) == cluster.lines
    sink.close()
    assert [] == list((tmp_path / "kafka").iterdir())
    assert 2 == len(swallowed_errors)
    assert "password" not in " ".join(swallowed_errors)


def test_brokers_that_go_again_while_the_backlog_is_sent(tmp_path: Path, swallowed_errors: list[str]) -> None:
    """What was confirmed is not sent again, the rest waits."""
    cluster = Cluster()
    cluster.up = False
    sink = sink_of(cluster, tmp_path)
    sink.write(numbered(1, 10))
    cluster.up, cluster.confirm = True, 4
    sink.maintain()
    assert (numbered(1, 4), 6) == (cluster.lines, sink.counts.waiting)
    cluster.up, cluster.confirm = True, 10**9
    while not sink.maintain():
        pass
    assert numbered(1, 10) == cluster.lines
    assert swallowed_errors


def test_without_a_disk_to_fall_back_to_what_was_confirmed_is_not_sent_again(
    tmp_path: Path, swallowed_errors: list[str]
) -> None:
    """The same lines are offered until they are taken: only the rest of them is sent."""
    cluster = Cluster()
    cluster.confirm = 3
    obstacle = tmp_path / "kafka"
    obstacle.write_text("no directory")
    sink = sink_of(cluster, tmp_path)
    lines = numbered(1, 10)
    for confirm in (3, 4):
        cluster.up, cluster.confirm = True, confirm
        with pytest.raises(OSError, match="kafka"):
            sink.write(lines)
    cluster.up, cluster.confirm = True, 10**9
    sink.write(lines)
    sink.write(numbered(11, 12))
    assert (numbered(1, 12), 12) == (cluster.lines, sink.counts.sent)
    assert swallowed_errors
    sink.close()


def test_in_a_hurry_nothing_is_connected_and_everything_is_kept(
    tmp_path: Path, swallowed_errors: list[str]
) -> None:
    """The process ends: the disk takes it, the next process sends it."""
    cluster = Cluster()
    cluster.up = False
    sink = sink_of(cluster, tmp_path)
    sink.write(numbered(1, 5))
    cluster.up = True
    connections = cluster.connections
    sink.hurry()
    sink.write(numbered(6, 10))
    sink.maintain()
    sink.close()
    assert (connections, []) == (cluster.connections, cluster.lines)
    heir = KafkaSink(Settings(spool_dir=str(tmp_path)), "heir", connect=cluster.connect)
    deadline = time.monotonic() + 10
    while len(cluster.lines) < 10 and time.monotonic() < deadline:
        heir.maintain()
    assert (numbered(1, 10), 10, 0) == (cluster.lines, heir.counts.sent, heir.counts.waiting)
    heir.close()
    assert [] == list((tmp_path / "kafka").iterdir())
    assert swallowed_errors


def test_a_full_disk_while_the_brokers_are_away_is_an_error_of_the_sink(
    tmp_path: Path, swallowed_errors: list[str]
) -> None:
    """The outlet then keeps the lines in memory and offers them again."""
    cluster = Cluster()
    cluster.up = False
    (tmp_path / "kafka").write_bytes(b"an obstacle")
    sink = sink_of(cluster, tmp_path)
    with pytest.raises(OSError, match="kafka"):
        sink.write(numbered(1, 5))
    (tmp_path / "kafka").unlink()
    sink.write(numbered(1, 5))
    assert 5 == sink.counts.waiting
    assert swallowed_errors
