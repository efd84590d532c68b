"""The sender: in order, nothing lost while a sink is in trouble, and nothing that ends it."""

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from falseok_collector.attributes import SchedPreempt
from falseok_collector.ring import Record, Ring
from falseok_collector.sender import BATCH_EVENTS, RETRY_SECONDS_MAX, Sender
from falseok_collector.sinks.memory import MemorySink


class BlockedSink(MemorySink):
    """A sink whose medium can be taken away: it then keeps nothing of what it is offered."""

    def __init__(self, name: str = "blocked") -> None:
        super().__init__()
        self.name = name
        self.error: Exception | None = None
        self.offers = 0

    def write(self, lines: list[bytes]) -> None:
        """Keep all the lines or none."""
        self.offers += 1
        if self.error is not None:
            raise self.error
        super().write(lines)


def encode(record: Record) -> bytes:
    """The shortest line there is: the record's number."""
    return b"%d" % record.seq


def fill(ring: Ring, events: int) -> None:
    """Queue so many records."""
    for _ in range(events):
        ring.append(Record(ring.next_number(), 0, 0, SchedPreempt(), "", -1, "", "", "", ""))


def numbers(sink: MemorySink) -> list[int]:
    """What arrived, in order."""
    return [int(line) for line in sink.lines]


def test_one_flush_writes_one_batch() -> None:
    """A batch is bounded, so that the interpreter lock is not held for long."""
    ring, sink = Ring(10_000), MemorySink()
    sender = Sender(ring, [sink], encode, retry_seconds=0.1)
    fill(ring, BATCH_EVENTS + 1)
    assert sender.flush(0.0)
    assert (BATCH_EVENTS, 1) == (len(sink.lines), len(ring))
    sender.flush_all(0.0)
    assert list(range(1, BATCH_EVENTS + 2)) == numbers(sink)
    assert BATCH_EVENTS + 1 == sender.events_emitted


def test_lines_refused_are_offered_again_in_order(swallowed_errors: list[str]) -> None:
    """A sink in trouble costs nothing but time."""
    ring, sink = Ring(10_000), BlockedSink()
    sender = Sender(ring, [sink], encode, retry_seconds=0.1)
    sink.error = OSError("no space left on device")
    fill(ring, 3)
    assert not sender.flush(0.0)
    fill(ring, 3)
    sink.error = None
    sender.flush_all(1.0)
    assert [1, 2, 3, 4, 5, 6] == numbers(sink)
    assert 1 == sender.sink_errors
    assert [
        "falseok: the blocked sink cannot write, events wait in memory: no space left on device",
        "falseok: the blocked sink writes again",
    ] == swallowed_errors


def test_a_sink_in_trouble_is_tried_less_and_less_often(swallowed_errors: list[str]) -> None:
    """The pause doubles up to its bound; trouble is logged once, not at every attempt."""
    ring, sink = Ring(10), BlockedSink()
    sender = Sender(ring, [sink], encode, retry_seconds=0.125)
    sink.error = OSError("gone")
    fill(ring, 1)
    attempts = []
    for eighth in range(240):
        before = sink.offers
        sender.flush(eighth / 8)
        if sink.offers > before:
            attempts.append(eighth / 8)
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert [0.125, 0.25, 0.5, 1.0, 2.0, 4.0] == pauses[:6]
    assert {RETRY_SECONDS_MAX} == set(pauses[6:])
    assert 1 == len(swallowed_errors)


def test_a_new_trouble_starts_with_a_short_pause_again(swallowed_errors: list[str]) -> None:
    """What was long ago does not count."""
    ring, sink = Ring(10), BlockedSink()
    sender = Sender(ring, [sink], encode, retry_seconds=0.1)
    for begin in (0.0, 100.0):
        sink.error = OSError("gone")
        fill(ring, 1)
        for attempt in range(4):
            sender.flush(begin + attempt)
        sink.error = None
        assert sender.flush(begin + 50)
    sink.error = OSError("gone")
    fill(ring, 1)
    sender.flush(200.0)
    offers = sink.offers
    sender.flush(200.1)
    assert offers + 1 == sink.offers
    assert 5 == len(swallowed_errors)


def test_the_last_flush_tries_a_sink_in_trouble_at_once(swallowed_errors: list[str]) -> None:
    """A process that ends does not wait for a pause to pass."""
    ring, sink = Ring(10), BlockedSink()
    sender = Sender(ring, [sink], encode, retry_seconds=0.1)
    sink.error = OSError("gone")
    fill(ring, 1)
    sender.flush(0.0)
    sink.error = None
    sender.flush(0.0)
    assert [] == numbers(sink)
    sender.flush_all(0.0, final=True)
    assert [1] == numbers(sink)
    assert 2 == len(swallowed_errors)


def test_while_a_sink_is_in_trouble_the_ring_keeps_and_then_drops(swallowed_errors: list[str]) -> None:
    """Memory stays bounded by one batch and the ring; what did not fit is counted, the rest arrives."""
    ring, sink = Ring(5), BlockedSink()
    sender = Sender(ring, [sink], encode, retry_seconds=0.1)
    sink.error = OSError("gone")
    fill(ring, 2)
    sender.flush(0.0)
    fill(ring, 8)
    sender.flush(1.0)
    assert (5, 3) == (len(ring), ring.dropped)
    sink.error = None
    sender.flush_all(2.0)
    fill(ring, 1)
    sender.flush_all(3.0)
    assert [1, 2, 3, 4, 5, 6, 7, 11] == numbers(sink)
    assert 2 == len(swallowed_errors)


def test_a_healthy_sink_gets_a_batch_once_although_another_refuses_it(swallowed_errors: list[str]) -> None:
    """Offering again concerns only the sink in trouble."""
    ring, healthy, blocked = Ring(10), MemorySink(), BlockedSink()
    sender = Sender(ring, [healthy, blocked], encode, retry_seconds=0.1)
    blocked.error = OSError("gone")
    fill(ring, 2)
    for second in range(5):
        sender.flush(float(second))
    blocked.error = None
    sender.flush_all(100.0)
    assert ([1, 2], [1, 2]) == (numbers(healthy), numbers(blocked))
    assert 2 == len(swallowed_errors)


def test_what_cannot_be_encoded_is_counted_and_stops_nothing(swallowed_errors: list[str]) -> None:
    """Not even when a whole batch is such."""
    ring, sink = Ring(10_000), MemorySink()

    def picky(record: Record) -> bytes:
        if record.seq <= BATCH_EVENTS + 1:
            raise TypeError("this value has no JSON")
        return encode(record)

    sender = Sender(ring, [sink], picky, retry_seconds=0.1)
    fill(ring, BATCH_EVENTS + 3)
    sender.flush_all(0.0)
    assert [BATCH_EVENTS + 2, BATCH_EVENTS + 3] == numbers(sink)
    assert (BATCH_EVENTS + 1, 2) == (sender.encode_errors, sender.events_emitted)
    assert ["falseok: an event could not be encoded and is lost"] == swallowed_errors


def running(
    sender: Sender, heartbeat: Callable[[], None], stopping: threading.Event, heartbeat_seconds: float = 60.0
) -> threading.Thread:
    """The sender in its thread."""
    options = {"flush_seconds": 0.001, "heartbeat": heartbeat, "heartbeat_seconds": heartbeat_seconds}
    thread = threading.Thread(target=sender.run, args=(stopping,), kwargs=options)
    thread.start()
    return thread


def test_stopping_writes_what_is_queued_and_closes_the_sinks() -> None:
    """After the thread has ended, nothing is left behind."""
    ring, sink, stopping = Ring(10_000), MemorySink(), threading.Event()
    fill(ring, 5_000)
    stopping.set()
    sender = Sender(ring, [sink], encode, retry_seconds=0.1)
    running(sender, lambda: fill(ring, 1), stopping).join()
    assert (list(range(1, 5_002)), True) == (numbers(sink), sink.closed)


def test_the_heart_beats_at_once_then_at_its_interval_and_at_the_end() -> None:
    """A process that lives for a moment still says so, and its last counts are told."""
    ring, stopping, beats = Ring(10), threading.Event(), threading.Semaphore(0)
    thread = running(
        Sender(ring, [], encode, retry_seconds=0.1), beats.release, stopping, heartbeat_seconds=0.002
    )
    for _ in range(3):
        assert beats.acquire(timeout=20)
    stopping.set()
    thread.join()
    seen: list[None] = []
    stopped = threading.Event()
    stopped.set()
    running(Sender(ring, [], encode, retry_seconds=0.1), lambda: seen.append(None), stopped).join()
    assert [None] == seen


@pytest.mark.parametrize("error", [ValueError("a defect of ours"), RecursionError()], ids=repr)
def test_an_error_nobody_foresaw_does_not_end_the_sender(
    error: Exception, swallowed_errors: list[str]
) -> None:
    """Heartbeat and sink may be defective: the rest goes on, and what was refused is offered again."""
    ring, sink, stopping = Ring(10), BlockedSink(), threading.Event()
    sink.error = error
    fill(ring, 2)
    failed = threading.Semaphore(0)

    def defective_heartbeat() -> None:
        failed.release()
        raise error

    sender = Sender(ring, [sink], encode, retry_seconds=0.1)
    thread = running(sender, defective_heartbeat, stopping, heartbeat_seconds=0.002)
    for _ in range(3):
        assert failed.acquire(timeout=20)
    sink.error = None
    stopping.set()
    thread.join()
    assert [1, 2] == numbers(sink)
    assert ["falseok: the sender failed and goes on"] == swallowed_errors
