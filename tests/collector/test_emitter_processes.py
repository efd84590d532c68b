"""What becomes of events when real processes fork, exit and are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.collector import processes
from tests.collector.locks import is_locked
from tests.collector.waiting import until

from falseok_collector.events import Envelope, decode

SETUP = """
import os, sys, threading
from falseok_collector.attributes import SchedPreempt
from falseok_collector.emitter import Emitter
from falseok_collector.settings import Settings

def emitter():
    return Emitter(Settings(spool_dir=sys.argv[1], flush_seconds=0.001))
"""


def events_by_boot(directory: Path) -> dict[str, list[Envelope]]:
    """All complete events of the spool, by process."""
    found: dict[str, list[Envelope]] = {}
    for segment in sorted(directory.iterdir()):
        for line in segment.read_bytes().splitlines():
            event = decode(line)
            found.setdefault(event.boot, []).append(event)
    return found


def names(events: list[Envelope]) -> list[str]:
    """Names of the events that are not the collector's own."""
    return [event.name for event in events if not event.name.startswith("collector.")]


FORK = (
    SETUP
    + """
parent = emitter()
os.register_at_fork(after_in_child=parent.reset)
parent.emit(SchedPreempt())
parent.start()
parent.emit(SchedPreempt())
boot = parent.boot
child = os.fork()
if child == 0:
    child_has = (parent.boot != boot, len(parent.ring), parent.sinks, threading.active_count())
    parent.emit(SchedPreempt())
    parent.start()
    parent.close()
    os.write(1, repr(child_has).encode() + b"\\n")
    os._exit(0)
os.waitpid(child, 0)
parent.emit(SchedPreempt())
parent.close()
"""
)


def test_a_forked_child_begins_anew(tmp_path: Path) -> None:
    """Another boot, an empty ring, no sink and no sender thread; parent and child each lose and double nothing."""
    assert "(True, 0, [], 1)\n" == processes.run(FORK, str(tmp_path))
    by_boot = events_by_boot(tmp_path)
    assert [1, 3] == sorted(names(events).count("sched.preempt") for events in by_boot.values())
    for events in by_boot.values():
        assert list(range(1, len(events) + 1)) == [event.seq for event in events]
        assert 1 == len({event.pid for event in events})
        assert 1 == names(events).count("engine.exit")


FORK_HOLDS_NO_LOCK = (
    SETUP
    + """
import fcntl, glob, signal
parent = emitter()
os.register_at_fork(after_in_child=parent.reset)
parent.start()
while not any(map(os.path.getsize, glob.glob(sys.argv[1] + "/*"))):
    pass
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
)


def test_a_child_does_not_keep_its_parents_segment_locked(tmp_path: Path) -> None:
    """A reader sees that the parent died, although a forked child lives on."""
    parent = processes.start(FORK_HOLDS_NO_LOCK, str(tmp_path))
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait()
        os.kill(child, 0)
        (segment,) = tmp_path.iterdir()
        try:
            until(lambda: not is_locked(segment), seconds=5)
        finally:
            os.kill(child, signal.SIGKILL)


KILLED = (
    SETUP
    + """
endless = emitter()
endless.start()
number = 0
while True:
    for _ in range(500):
        number += 1
        endless.emit(SchedPreempt(output_tokens=number))
    while len(endless.ring) > 400:
        pass
    print(number, flush=True)
"""
)


@pytest.mark.parametrize("reports", [1, 7, 23])
def test_a_killed_process_leaves_whole_events_and_at_most_one_torn_tail(tmp_path: Path, reports: int) -> None:
    """`kill -9` in mid-write: everything but the last line of the last segment is readable, without a gap."""
    process = processes.start(KILLED, str(tmp_path))
    with process:
        assert process.stdout is not None
        for _ in range(reports):
            assert process.stdout.readline()
        process.kill()
    lines: list[bytes] = []
    segments = sorted(tmp_path.iterdir())
    for segment in segments:
        *complete, tail = segment.read_bytes().split(b"\n")
        lines += complete
        assert b"" == tail or segment == segments[-1]
    events = [decode(line) for line in lines]
    assert list(range(1, len(events) + 1)) == [event.seq for event in events]
    assert len(events) >= 500 * reports - 2_400


CHILD_MODULE = """
import multiprocessing, sys
from falseok_collector.attributes import SchedPreempt
from falseok_collector.emitter import Emitter
from falseok_collector.settings import Settings

def work(spool_dir):
    emitter = Emitter(Settings(spool_dir=spool_dir, flush_seconds=60.0))
    emitter.start()
    for _ in range(100):
        emitter.emit(SchedPreempt())

if __name__ == "__main__":
    method, spool_dir = sys.argv[1:]
    if method == "none":
        work(spool_dir)
    else:
        process = multiprocessing.get_context(method).Process(target=work, args=(spool_dir,))
        process.start()
        process.join()
        sys.exit(process.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "none"])
def test_a_process_that_just_ends_has_written_everything(tmp_path: Path, method: str) -> None:
    """Engine processes are children of multiprocessing, which skip `atexit`; API servers are not. Both flush."""
    script = tmp_path / "engine.py"
    script.write_text(CHILD_MODULE, encoding="utf-8")
    spool = tmp_path / "spool"
    command = [sys.executable, str(script), method, str(spool)]
    subprocess.run(command, check=True, timeout=60, env=processes.environment())
    (events,) = events_by_boot(spool).values()
    assert ["sched.preempt"] * 100 + ["engine.exit"] == names(events)


AFFINITY = (
    SETUP
    + """
allowed = {min(os.sched_getaffinity(0))} if sys.argv[2] == "narrow" else os.sched_getaffinity(0)
os.sched_setaffinity(0, allowed)
pinned = emitter()
os.sched_setaffinity(0, {max(allowed)})
pinned.start()
pinned.emit(SchedPreempt())
while len(pinned.ring):
    pass
print(os.sched_getaffinity(pinned._thread.native_id) == allowed)
"""
)


@pytest.mark.parametrize("allowed", ["wide", "narrow"])
def test_the_sender_runs_where_the_process_was_allowed_to(tmp_path: Path, allowed: str) -> None:
    """Not on the one processor vLLM's CPU platform pins a worker to, and not where the operator forbids it."""
    assert "True\n" == processes.run(AFFINITY, str(tmp_path), allowed)


def test_every_line_of_a_spool_is_an_event_of_the_contract(tmp_path: Path) -> None:
    """Whatever the processes above write is what any JSON reader sees, too."""
    processes.run(
        SETUP + "e = emitter(); e.start(); e.emit(SchedPreempt(output_tokens=1)); e.close()", str(tmp_path)
    )
    (segment,) = tmp_path.iterdir()
    lines = [msgspec.json.decode(line) for line in segment.read_bytes().splitlines()]
    assert {"output_tokens": 1} in [line.get("attrs") for line in lines]
    assert {1} == {line["v"] for line in lines}
