"""The sender: off the ring in order, to every outlet, and nothing that ends it."""

import threading
from collections.abc import Callable

import pytest
from tests.collector.blocked import BlockedSink, StuckSink
from tests.collector.waiting import until

from falseok_collector.attributes import SchedPreempt
from falseok_collector.outlet import BATCH_EVENTS, Outlet
from falseok_collector.ring import Record, Ring
from falseok_collector.sender import DRAIN_SECONDS, IDLE_PAUSES, Sender
from falseok_collector.sinks import Sink
from falseok_collector.sinks.memory import MemorySink


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


def sender_of(
    ring: Ring,
    *sinks: Sink,
    encode: Callable[[Record], bytes] = encode,
    queue_events: int = 100_000,
) -> Sender:
    """A sender whose outlets retry quickly."""
    outlets = [Outlet(sink, queue_events=queue_events, retry_seconds=0.001) for sink in sinks]
    return Sender(ring, outlets, encode)


def running(
    sender: Sender, heartbeat: Callable[[], None], stopping: threading.Event, heartbeat_seconds: float = 60.0
) -> threading.Thread:
    """The sender in its thread."""
    options = {"flush_seconds": 0.001, "heartbeat": heartbeat, "heartbeat_seconds": heartbeat_seconds}
    thread = threading.Thread(target=sender.run, args=(stopping,), kwargs=options)
    thread.start()
    return thread


class Waits(threading.Event):
    """An event that is set after some waits, which take no time; keeps how long they would have been."""

    def __init__(self, waits: int, during: Callable[[int], None]) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._waits = waits
        self._during = during

    def wait(self, timeout: float | None = None) -> bool:
        """Let the test act, and return at once."""
        self.seconds.append(timeout or 0.0)
        self._during(len(self.seconds))
        return len(self.seconds) > self._waits


def test_a_sender_without_events_wakes_up_rarely_and_soon_again_when_they_come() -> None:
    """Pauses grow to a bound while the ring is empty, and begin anew with the first event."""
    ring = Ring(10)
    waits = Waits(6, lambda number: fill(ring, 1) if number == 5 else None)
    sender_of(ring, MemorySink()).run(waits, flush_seconds=1.0, heartbeat=lambda: None, heartbeat_seconds=1e6)
    assert [1.0, 2.0, 4.0, float(IDLE_PAUSES), float(IDLE_PAUSES), 1.0, 2.0] == waits.seconds


def test_no_heartbeat_waits_for_a_sender_without_events() -> None:
    """A heartbeat interval shorter than the longest pause is kept."""
    waits = Waits(4, lambda _: None)
    sender_of(Ring(10), MemorySink()).run(
        waits, flush_seconds=1.0, heartbeat=lambda: None, heartbeat_seconds=1.5
    )
    assert max(waits.seconds) <= 1.5


def test_everything_on_the_ring_reaches_every_outlet_in_order() -> None:
    """One flush hands over whatever there is."""
    ring, first, second = Ring(10_000), MemorySink(), MemorySink()
    sender = sender_of(ring, first, second)
    fill(ring, BATCH_EVENTS + 1)
    sender.flush()
    assert (0, BATCH_EVENTS + 1) == (len(ring), sender.events_emitted)
    for outlet in sender.outlets:
        outlet.step(0.0)
        outlet.step(0.0)
    assert list(range(1, BATCH_EVENTS + 2)) == numbers(first) == numbers(second)


def test_when_the_only_sink_has_no_room_the_ring_keeps_and_then_drops() -> None:
    """Memory stays bounded by the queue and the ring; what did not fit is counted by the ring."""
    ring, sink = Ring(5), MemorySink()
    sender = sender_of(ring, sink, queue_events=2)
    fill(ring, 2)
    sender.flush()
    fill(ring, 8)
    sender.flush()
    assert (5, 3, 0) == (len(ring), ring.dropped, sender.outlets[0].refused)
    for _ in range(4):
        sender.outlets[0].step(0.0)
        sender.flush()
    assert [1, 2, 3, 4, 5, 6, 7] == numbers(sink)


def test_a_full_outlet_loses_and_the_others_do_not(swallowed_errors: list[str]) -> None:
    """One sink in trouble costs the healthy ones neither an event nor a wait."""
    ring, healthy, blocked = Ring(10), MemorySink(), BlockedSink()
    sender = sender_of(ring, healthy, blocked, queue_events=4)
    blocked.error = OSError("gone")
    for _ in range(5):
        fill(ring, 2)
        sender.flush()
        for outlet in sender.outlets:
            outlet.step(0.0)
    assert list(range(1, 11)) == numbers(healthy)
    assert (0, 0, 6) == (len(ring), ring.dropped, sender.outlets[1].refused)
    blocked.error = None
    for _ in range(2):
        sender.outlets[1].step(10.0)
    assert [1, 2, 3, 4] == numbers(blocked)
    assert 2 == len(swallowed_errors)


def test_a_sink_that_hangs_holds_up_nobody() -> None:
    """Its thread waits inside `write`; the other sink has everything, and the end of the process is not delayed."""
    ring, healthy, stuck, stopping = Ring(10_000), MemorySink(), StuckSink(), threading.Event()
    thread = running(sender_of(ring, stuck, healthy), lambda: None, stopping)
    try:
        fill(ring, 1)
        assert stuck.entered.wait(20)
        fill(ring, 5_000)
        until(lambda: 5_001 == len(healthy.lines))
        stopping.set()
        thread.join(2 * DRAIN_SECONDS + 20)
        assert (False, True) == (thread.is_alive(), healthy.closed)
    finally:
        stuck.released.set()


def test_what_cannot_be_encoded_is_counted_and_stops_nothing(swallowed_errors: list[str]) -> None:
    """Not even when a whole batch is such."""
    ring, sink = Ring(10_000), MemorySink()

    def picky(record: Record) -> bytes:
        if record.seq <= BATCH_EVENTS + 1:
            raise TypeError("this value has no JSON")
        return encode(record)

    sender = sender_of(ring, sink, encode=picky)
    fill(ring, BATCH_EVENTS + 3)
    sender.flush()
    sender.outlets[0].step(0.0)
    assert [BATCH_EVENTS + 2, BATCH_EVENTS + 3] == numbers(sink)
    assert (BATCH_EVENTS + 1, 2) == (sender.encode_errors, sender.events_emitted)
    [told] = swallowed_errors
    assert told.startswith("falseok: an event could not be encoded and is lost: TypeError in picky, line ")


def test_stopping_writes_what_is_queued_and_closes_the_sinks() -> None:
    """After the thread has ended, nothing is left behind, although the queue holds less than the ring."""
    ring, sink, stopping = Ring(10_000), MemorySink(), threading.Event()
    fill(ring, 5_000)
    stopping.set()
    running(sender_of(ring, sink, queue_events=100), lambda: fill(ring, 1), stopping).join()
    assert (list(range(1, 5_002)), True) == (numbers(sink), sink.closed)


def test_the_heart_beats_at_once_then_at_its_interval_and_at_the_end() -> None:
    """A process that lives for a moment still says so, and its last counts are told."""
    ring, stopping, beats = Ring(10), threading.Event(), threading.Semaphore(0)
    thread = running(sender_of(ring), beats.release, stopping, heartbeat_seconds=0.002)
    for _ in range(3):
        assert beats.acquire(timeout=20)
    stopping.set()
    thread.join()
    seen: list[None] = []
    stopped = threading.Event()
    stopped.set()
    running(sender_of(ring), lambda: seen.append(None), stopped).join()
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

    sender = sender_of(ring, sink)
    thread = running(sender, defective_heartbeat, stopping, heartbeat_seconds=0.002)
    until(lambda: sink.offers)
    sink.error = None
    for _ in range(3):
        assert failed.acquire(timeout=20)
    stopping.set()
    thread.join()
    assert [1, 2] == numbers(sink)
    place = f"{type(error).__name__} in defective_heartbeat, line "
    assert any(f"falseok: the sender failed and goes on: {place}" in told for told in swallowed_errors)
    assert "falseok: the blocked sink writes again" in swallowed_errors
    assert sender.sink_errors >= 4
