"""One process's events, from `emit` to what a reader finds."""

import threading
import time
from pathlib import Path

import pytest
from tests.collector.waiting import until

from falseok_collector.attributes import (
    CollectorHeartbeat,
    EngineExit,
    HookState,
    KvOffer,
    SchedPreempt,
)
from falseok_collector.emitter import Emitter
from falseok_collector.events import Envelope, attributes_of, decode
from falseok_collector.settings import Settings
from falseok_collector.sinks import choice
from falseok_collector.sinks.memory import MemorySink

QUICK = Settings(sinks=("memory",), flush_seconds=0.001, heartbeat_seconds=60.0)


def closed(emitter: Emitter) -> list[Envelope]:
    """Close the emitter and read everything it sent."""
    emitter.close()
    (sink,) = emitter.sinks
    assert isinstance(sink, MemorySink)
    return [decode(line) for line in sink.lines]


def last_heartbeat(events: list[Envelope]) -> CollectorHeartbeat:
    """The counts a process told last."""
    beats = [attributes_of(event) for event in events if event.name == "collector.heartbeat"]
    assert isinstance(beats[-1], CollectorHeartbeat)
    return beats[-1]


def test_ids_are_the_boot_and_a_number_without_gaps() -> None:
    """Whatever was emitted arrives, once, in order."""
    emitter = Emitter(QUICK)
    for tokens in range(100):
        emitter.emit(SchedPreempt(output_tokens=tokens))
    emitter.start()
    events = closed(emitter)
    assert [f"{emitter.boot}-{number}" for number in range(1, len(events) + 1)] == sorted(
        (event.id for event in events), key=lambda name: int(name.rpartition("-")[2])
    )
    assert list(range(1, len(events) + 1)) == sorted(event.seq for event in events)
    tokens_seen = [attributes_of(event) for event in events if event.name == "sched.preempt"]
    assert [SchedPreempt(output_tokens=tokens) for tokens in range(100)] == tokens_seen


def test_times_are_those_of_the_call() -> None:
    """Wall clock and monotonic clock in microseconds, taken in the hook and not in the sender."""
    emitter = Emitter(QUICK)
    before = time.time_ns() // 1_000, time.monotonic_ns() // 1_000
    emitter.emit(SchedPreempt())
    after = time.time_ns() // 1_000, time.monotonic_ns() // 1_000
    emitter.start()
    event = closed(emitter)[0]
    assert before[0] <= event.ts <= after[0]
    assert before[1] <= event.mono <= after[1]


def test_what_is_learned_late_counts_for_earlier_events() -> None:
    """Events before the engine's id is known take it, too."""
    emitter = Emitter(QUICK)
    emitter.emit(SchedPreempt())
    emitter.engine_id, emitter.group = "engine-1", "10.0.0.1:5600"
    emitter.start()
    event = closed(emitter)[0]
    assert ("engine-1", "10.0.0.1:5600") == (event.engine_id, event.group)


@pytest.mark.parametrize(("group", "expected"), [("chat", "chat"), ("", "engine-1")])
def test_the_group_is_the_setting_else_the_engine(group: str, expected: str) -> None:
    """Engines of one deployment are recognised although their ids change at every start."""
    emitter = Emitter(Settings(sinks=("memory",), flush_seconds=0.001, engine_group=group))
    emitter.engine_id = "engine-1"
    emitter.emit(SchedPreempt())
    emitter.start()
    assert expected == closed(emitter)[0].group


def test_nothing_is_started_before_start(tmp_path: Path) -> None:
    """vLLM loads plug-ins in processes that fork later: no thread, no file."""
    threads = threading.enumerate()
    emitter = Emitter(Settings(spool_dir=str(tmp_path / "spool")))
    emitter.emit(SchedPreempt())
    emitter.close()
    assert threads == threading.enumerate()
    assert [] == list(tmp_path.iterdir())


def test_starting_and_closing_twice_is_starting_and_closing_once() -> None:
    """Several hooks start the sender, several exit handlers close it."""
    emitter = Emitter(QUICK)
    emitter.start()
    sinks = emitter.sinks
    emitter.start()
    assert sinks is emitter.sinks
    emitter.close()
    events = closed(emitter)
    assert 1 == [event.name for event in events].count("engine.exit")


def test_closing_says_goodbye_and_writes_everything() -> None:
    """The last words name the process and the request it saw last; then come the final counts."""
    emitter = Emitter(Settings(sinks=("memory",), flush_seconds=60.0))
    emitter.process = "worker"
    emitter.start()
    for number in range(5_000):
        emitter.emit(SchedPreempt(), request_id=f"r{number}")
    events = closed(emitter)
    assert ["engine.exit", "collector.heartbeat"] == [event.name for event in events[-2:]]
    exit_event = attributes_of(events[-2])
    assert EngineExit(process="worker", reason="clean", last_request_id="r4999") == exit_event
    assert 5_000 == [event.name for event in events].count("sched.preempt")
    assert 0 == len(emitter.ring)


def test_the_heartbeat_tells_the_state_of_the_hooks() -> None:
    """So that the service can show which evidence is missing."""
    emitter = Emitter(QUICK)
    emitter.process = "engine_core"
    states = [HookState(name="core.admit", state="active", calls=3)]
    emitter.hook_states = lambda: states
    emitter.emit(SchedPreempt())
    emitter.start()
    heartbeat = last_heartbeat(closed(emitter))
    assert ("engine_core", states) == (heartbeat.process, heartbeat.hooks)
    assert (0, 0, 0, 0) == (
        heartbeat.events_dropped,
        heartbeat.events_spilled,
        heartbeat.sink_errors,
        heartbeat.queue_depth,
    )


def test_what_comes_after_the_end_takes_no_memory_and_is_counted() -> None:
    """A hook may run on while the process ends; the last event says that it did."""
    emitter = Emitter(QUICK)
    emitter.start()
    events = closed(emitter)
    for _ in range(100):
        emitter.emit(SchedPreempt())
    assert (0, 100) == (len(emitter.ring), emitter.ring.dropped)
    assert "engine.exit" in {event.name for event in events[-2:]}


def test_an_event_that_cannot_be_encoded_is_counted(swallowed_errors: list[str]) -> None:
    """It leaves a gap in the numbers; those around it arrive."""
    emitter = Emitter(QUICK)
    emitter.emit(SchedPreempt())
    emitter.emit(KvOffer(block_ids=[[object()]]))  # type: ignore[list-item] # what no hook should hand over
    emitter.emit(SchedPreempt())
    emitter.start()
    events = closed(emitter)
    assert [1, 3] == [event.seq for event in events if event.name == "sched.preempt"]
    assert 1 == last_heartbeat(events).events_dropped
    [told] = swallowed_errors
    assert told.startswith("falseok: an event could not be encoded and is lost: TypeError in ")


def test_events_wait_for_a_spool_that_cannot_be_written(tmp_path: Path, swallowed_errors: list[str]) -> None:
    """A real obstacle where the directory should be: once it is gone everything arrives, in order."""
    obstacle = tmp_path / "spool"
    obstacle.write_bytes(b"")
    emitter = Emitter(Settings(spool_dir=str(obstacle), flush_seconds=0.001, ring_events=100))
    for _ in range(10):
        emitter.emit(SchedPreempt())
    emitter.start()
    until(lambda: swallowed_errors)
    for _ in range(10):
        emitter.emit(SchedPreempt())
    obstacle.unlink()
    emitter.close()
    (segment,) = obstacle.iterdir()
    events = [decode(line) for line in segment.read_bytes().splitlines()]
    assert list(range(1, len(events) + 1)) == [event.seq for event in events]
    assert 20 == [event.name for event in events].count("sched.preempt")
    assert last_heartbeat(events).sink_errors >= 1
    assert "falseok: the spool sink writes again" == swallowed_errors[-1]


def test_what_a_full_ring_refuses_is_told(tmp_path: Path, swallowed_errors: list[str]) -> None:
    """With the spool away for too long events are lost: the heartbeat counts them, the numbers have a gap."""
    obstacle = tmp_path / "spool"
    obstacle.write_bytes(b"")
    emitter = Emitter(Settings(spool_dir=str(obstacle), flush_seconds=0.001, ring_events=10))
    emitter.start()
    until(lambda: swallowed_errors)
    for _ in range(9):
        emitter.emit(SchedPreempt())
    until(lambda: not len(emitter.ring))  # with the first heartbeat, ten wait for the sink now
    for _ in range(30):
        emitter.emit(SchedPreempt())
    assert 20 == emitter.ring.dropped
    obstacle.unlink()
    until(lambda: not len(emitter.ring))
    emitter.close()
    (segment,) = obstacle.iterdir()
    events = [decode(line) for line in segment.read_bytes().splitlines()]
    heartbeat = last_heartbeat(events)
    assert 20 == heartbeat.events_dropped
    assert 20 == events[-1].seq - len(events)
    assert 19 == [event.name for event in events].count("sched.preempt")
    assert [("spool", 0)] == [(sink.name, sink.events_lost) for sink in heartbeat.sinks]


def test_losses_of_the_spool_are_told(tmp_path: Path) -> None:
    """What the directory's bound cost is in the last heartbeat, and adds up."""
    emitter = Emitter(
        Settings(spool_dir=str(tmp_path), flush_seconds=0.001, spool_max_bytes=65_536, heartbeat_seconds=60.0)
    )
    emitter.start()
    for _ in range(20):
        for _ in range(100):
            emitter.emit(SchedPreempt())
        until(lambda: not len(emitter.ring))
    emitter.close()
    events = [
        decode(line) for segment in sorted(tmp_path.iterdir()) for line in segment.read_bytes().splitlines()
    ]
    heartbeat = last_heartbeat(events)
    (sink,) = emitter.sinks
    assert events[-1].seq == len(events) + sink.counts.spilled
    # Writing the last heartbeat itself may have cost more.
    assert 0 < heartbeat.segments_dropped <= sink.counts.segments_dropped
    assert 0 < heartbeat.events_spilled <= sink.counts.spilled


def test_the_heartbeat_tells_of_every_sink_also_of_one_that_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """A missing library is seen from afar; the spool has the events meanwhile."""
    monkeypatch.setattr(choice, "missing_module", lambda name: "kafka" if name == "kafka" else "")
    emitter = Emitter(
        Settings(
            sinks=("kafka", "memory"), spool_dir=str(tmp_path), flush_seconds=0.001, heartbeat_seconds=60.0
        )
    )
    emitter.emit(SchedPreempt())
    emitter.start()
    emitter.close()
    events = [decode(line) for path in tmp_path.iterdir() for line in path.read_bytes().splitlines()]
    heartbeat = last_heartbeat(events)
    told = {sink.name: (sink.state, sink.events_sent) for sink in heartbeat.sinks}
    sent = len(events) - 1
    assert {"kafka": ("unavailable", 0), "memory": ("ok", sent), "spool": ("ok", sent)} == told
    assert ["sched.preempt"] == [event.name for event in events if event.name.startswith("sched")]
    assert "falseok[kafka]" in swallowed_errors[0]


def test_reset_begins_anew() -> None:
    """What the child does after a fork: another boot, nothing queued, numbers from 1, no thread."""
    emitter = Emitter(QUICK)
    emitter.emit(SchedPreempt(), request_id="r")
    boot = emitter.boot
    emitter.reset()
    assert boot != emitter.boot
    assert (0, [], "") == (len(emitter.ring), emitter.sinks, emitter.last_request_id)
    emitter.emit(SchedPreempt())
    emitter.start()
    assert 1 == closed(emitter)[0].seq
