"""One sink's queue: in order, nothing lost while the sink is in trouble, bounded, and told."""

import math
import threading
from itertools import pairwise

import pytest
from tests.collector.blocked import BlockedSink
from tests.collector.waiting import until

from falseok_collector import outlet as outlet_module
from falseok_collector.attributes import SinkState
from falseok_collector.outlet import BATCH_EVENTS, DEFECT_ATTEMPTS, RETRY_SECONDS_MAX, Outlet
from falseok_collector.sinks.memory import MemorySink


def outlet_of(sink: MemorySink, queue_events: int = 10_000, retry_seconds: float = 0.1) -> Outlet:
    """An outlet whose thread is not started: the test takes the steps."""
    return Outlet(sink, queue_events=queue_events, retry_seconds=retry_seconds)


def lines(first: int, last: int) -> list[bytes]:
    """Lines that name their numbers."""
    return [b"%d" % number for number in range(first, last + 1)]


def test_a_step_writes_one_batch() -> None:
    """A batch is bounded, so that the interpreter lock is not held for long; small offers are put together."""
    sink = MemorySink()
    outlet = outlet_of(sink)
    outlet.offer(lines(1, 3))
    outlet.offer(lines(4, BATCH_EVENTS))
    outlet.offer(lines(BATCH_EVENTS + 1, BATCH_EVENTS + 1))
    assert 0.0 == outlet.step(0.0)
    assert lines(1, BATCH_EVENTS) == sink.lines
    assert math.inf == outlet.step(0.0)
    assert lines(1, BATCH_EVENTS + 1) == sink.lines
    assert math.inf == outlet.step(0.0)


def test_lines_refused_are_offered_again_in_order(swallowed_errors: list[str]) -> None:
    """A sink in trouble costs nothing but time."""
    sink = BlockedSink()
    outlet = outlet_of(sink)
    sink.error = OSError(28, "no space left on device")
    outlet.offer(lines(1, 3))
    assert 0.1 == outlet.step(0.0)
    outlet.offer(lines(4, 6))
    sink.error = None
    outlet.step(1.0)
    outlet.step(1.0)
    assert lines(1, 6) == sink.lines
    assert 1 == outlet.errors
    assert [
        "falseok: the blocked sink cannot write, events wait in memory: no space left on device",
        "falseok: the blocked sink writes again",
    ] == swallowed_errors


def test_a_sink_in_trouble_is_tried_less_and_less_often(swallowed_errors: list[str]) -> None:
    """The pause doubles up to its bound; trouble is logged once, not at every attempt."""
    sink = BlockedSink()
    outlet = outlet_of(sink, retry_seconds=0.125)
    sink.error = OSError("gone")
    outlet.offer([b"1"])
    attempts = []
    for eighth in range(240):
        before = sink.offers
        outlet.step(eighth / 8)
        if sink.offers > before:
            attempts.append(eighth / 8)
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert [0.125, 0.25, 0.5, 1.0, 2.0, 4.0] == pauses[:6]
    assert {RETRY_SECONDS_MAX} == set(pauses[6:])
    assert 1 == len(swallowed_errors)


def test_a_new_trouble_starts_with_a_short_pause_again(swallowed_errors: list[str]) -> None:
    """What was long ago does not count."""
    sink = BlockedSink()
    outlet = outlet_of(sink)
    for begin in (0.0, 100.0):
        sink.error = OSError("gone")
        outlet.offer([b"1"])
        for attempt in range(4):
            outlet.step(begin + attempt)
        sink.error = None
        outlet.step(begin + 50)
    sink.error = OSError("gone")
    outlet.offer([b"1"])
    outlet.step(200.0)
    offers = sink.offers
    outlet.step(200.1)
    assert offers + 1 == sink.offers
    assert 5 == len(swallowed_errors)


class PickySink(MemorySink):
    """A sink with a defect: it has no way to take some lines."""

    def __init__(self, poison: set[bytes]) -> None:
        super().__init__()
        self.poison = poison

    def write(self, lines: list[bytes]) -> None:
        """All or none."""
        if self.poison.intersection(lines):
            raise TypeError("user:private@host")
        super().write(lines)


@pytest.mark.parametrize("poison", [{5}, {1, 1_500}, {1_500, 1_501, 4_000}], ids=str)
def test_a_line_that_a_sink_has_no_way_to_take_costs_only_itself(
    poison: set[int], swallowed_errors: list[str]
) -> None:
    """A defect will not pass: the others are not held up for ever, arrive in order, and the loss is counted."""
    sink = PickySink({b"%d" % number for number in poison})
    outlet = outlet_of(sink)
    outlet.offer(lines(1, 4_000))
    now = 0.0
    for _ in range(1_000):
        now += RETRY_SECONDS_MAX
        outlet.step(now)
    assert [b"%d" % number for number in range(1, 4_001) if number not in poison] == sink.lines
    assert (len(poison), 10_000, 0) == (outlet.refused, outlet.room(), outlet.state().events_waiting)
    assert not [told for told in swallowed_errors if "private" in told]


def test_after_a_loss_the_next_line_has_all_its_tries(swallowed_errors: list[str]) -> None:
    """A line is lost for its own failures, not for those of the one before."""
    sink = BlockedSink()
    outlet = outlet_of(sink)
    sink.error = TypeError()
    outlet.offer([b"1"])
    now = 0.0
    for _ in range(DEFECT_ATTEMPTS):
        now += RETRY_SECONDS_MAX
        outlet.step(now)
    assert 1 == outlet.refused
    outlet.offer([b"2"])
    for _ in range(DEFECT_ATTEMPTS - 1):
        now += RETRY_SECONDS_MAX
        outlet.step(now)
    sink.error = None
    outlet.step(now + RETRY_SECONDS_MAX)
    assert ([b"2"], 1) == (sink.lines, outlet.refused)
    assert swallowed_errors


def test_trouble_of_the_outside_world_is_never_taken_for_a_defect(swallowed_errors: list[str]) -> None:
    """However long a disk is full or a receiver away, what waits is written in the end."""
    sink = BlockedSink()
    outlet = outlet_of(sink)
    outlet.offer(lines(1, 3))
    now = 0.0
    for error in [TypeError(), OSError("gone")] * 100:
        sink.error = error
        now += RETRY_SECONDS_MAX
        outlet.step(now)
    sink.error = None
    outlet.step(now + RETRY_SECONDS_MAX)
    assert (lines(1, 3), 0) == (sink.lines, outlet.refused)
    assert 2 == len(swallowed_errors)


def test_when_the_process_ends_a_sink_in_trouble_is_tried_at_once(swallowed_errors: list[str]) -> None:
    """A process that ends does not wait for a pause to pass, and does not wait for ever either."""
    sink = BlockedSink()
    outlet = outlet_of(sink, retry_seconds=60.0)
    sink.error = OSError("gone")
    outlet.offer([b"1"])
    outlet.step(0.0)
    outlet.hurry()
    assert not outlet.settled()
    outlet.step(0.0)
    assert outlet.settled()
    sink.error = None
    outlet.step(0.0)
    assert ([b"1"], True) == (sink.lines, outlet.settled())
    assert 2 == len(swallowed_errors)


def test_the_queue_is_bounded_in_events(swallowed_errors: list[str]) -> None:
    """What does not fit is lost for this sink and counted; what fits arrives in order."""
    sink = BlockedSink()
    outlet = outlet_of(sink, queue_events=5)
    sink.error = OSError("gone")
    outlet.offer(lines(1, 3))
    outlet.step(0.0)
    outlet.offer(lines(4, 9))
    outlet.offer(lines(10, 10))
    assert (0, 5) == (outlet.room(), outlet.refused)
    sink.error = None
    outlet.step(1.0)
    outlet.step(1.0)
    assert (lines(1, 5), 5) == (sink.lines, outlet.room())
    assert 2 == len(swallowed_errors)


def test_the_queue_is_bounded_in_bytes() -> None:
    """Few events of a great size do not fill the memory: past the bound nothing more is taken."""
    outlet = outlet_of(MemorySink())
    line = b"x" * (outlet_module.QUEUE_BYTES // 4)
    for _ in range(6):
        outlet.offer([line])
    assert (0, 2) == (outlet.room(), outlet.refused)
    outlet.step(0.0)
    assert 10_000 == outlet.room()


def test_the_state_tells_what_waits_what_went_and_what_is_lost(swallowed_errors: list[str]) -> None:
    """A person who reads the heartbeat sees which sink is in trouble, why, and what it cost."""
    sink = BlockedSink()
    outlet = outlet_of(sink, queue_events=2)
    outlet.offer([b"1"])
    outlet.step(0.0)
    assert SinkState(name="blocked", state="ok", events_sent=1) == outlet.state()
    sink.error = PermissionError("not yours")
    outlet.offer([b"2", b"3", b"4"])
    outlet.step(0.0)
    assert (
        SinkState(
            name="blocked",
            state="retrying",
            events_sent=1,
            events_waiting=2,
            events_lost=1,
            errors=1,
            last_error="PermissionError",
        )
        == outlet.state()
    )
    assert 1 == len(swallowed_errors)


class UpkeepSink(MemorySink):
    """A sink that has work to do between writes."""

    def __init__(self, pauses: list[float]) -> None:
        super().__init__()
        self.pauses = pauses
        self.upkeeps = 0

    def maintain(self) -> float:
        """Wants to be called again after the next of the pauses."""
        self.upkeeps += 1
        return self.pauses.pop(0)


def test_upkeep_has_its_turn_after_every_write_and_when_it_asked_for_it() -> None:
    """A sink that drains something makes progress under load, too."""
    sink = UpkeepSink([0.0, 3.0, 7.0])
    outlet = outlet_of(sink)
    outlet.offer([b"1"])
    assert 0.0 == outlet.step(0.0)
    assert 3.0 == outlet.step(0.0)
    outlet.offer([b"2"])
    assert 7.0 == outlet.step(0.0)
    assert ([b"1", b"2"], 3) == (sink.lines, sink.upkeeps)


def test_the_thread_writes_as_soon_as_there_is_something_and_ends_when_told() -> None:
    """It sleeps while there is nothing to do, and closes its sink at the end."""
    sink = MemorySink()
    outlet = outlet_of(sink)
    outlet.start()
    for number in range(50):
        outlet.offer([b"%d" % number])
        until(lambda expected=number + 1: expected == len(sink.lines))  # type: ignore[misc]
    outlet.stop()
    outlet.join(20)
    assert sink.closed
    assert "falseok-memory" not in {thread.name for thread in threading.enumerate()}
