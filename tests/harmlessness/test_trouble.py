"""An engine whose collector is in trouble serves as before: slow disk, full disk, no disk, overflow."""

from pathlib import Path

import msgspec
import pytest
from tests.harmlessness import engine

from falseok_collector.attributes import CollectorHeartbeat
from falseok_collector.events import Envelope, attributes_of, decode

SERVE = """
import resource, signal
from falseok_collector.sinks import spool

kind = sys.argv[1]
write = os.write
if kind == "slow":
    def slow(descriptor, data):
        time.sleep(0.5)
        return write(descriptor, data)
    os.write = slow
elif kind == "hanging":
    def hanging(descriptor, data):
        threading.Event().wait()
    os.write = hanging
elif kind == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
start()
spent = []
for number in range(2_000):
    before = time.perf_counter()
    assert serve(number) == (False, None)
    spent.append(time.perf_counter() - before)
os.write = write if kind == "recovers" else os.write
state = {state.name: (state.state, state.errors) for state in made.states() if state.calls}
ending = time.perf_counter()
emitter.close()
print(sorted(spent)[-20], time.perf_counter() - ending, len(emitter.ring), emitter.ring.dropped, set(state.values()))
"""


class Outcome(msgspec.Struct):
    """What the engine's process saw."""

    slow_request_seconds: float
    """The twentieth slowest of 2,000: one that the machine held up for a moment does not count."""
    closing_seconds: float
    waiting: int
    dropped: int
    states: str


def served(tmp_path: Path, kind: str, **variables: str) -> Outcome:
    """An engine served 2,000 requests with a spool in trouble, and every answer was right."""
    printed = engine.run(tmp_path / "engine", SERVE, kind, **({"FALSEOK_RING_EVENTS": "1000"} | variables))
    slow, closing, waiting, dropped, states = printed.split(maxsplit=4)
    return Outcome(float(slow), float(closing), int(waiting), int(dropped), states.strip())


def events(spool: Path) -> list[Envelope]:
    """Everything that was written."""
    return [decode(line) for segment in sorted(spool.iterdir()) for line in segment.read_bytes().splitlines()]


@pytest.mark.parametrize("kind", ["slow", "hanging", "full", "absent"])
def test_serving_does_not_wait_for_a_spool_in_trouble(tmp_path: Path, kind: str) -> None:
    """Every answer is right and quick, no hook saw an error, the ring stays within its bound, the end comes soon."""
    obstacle = tmp_path / "file"
    obstacle.touch()
    spool = obstacle / "spool" if kind == "absent" else tmp_path / "spool"
    outcome = served(tmp_path, kind, FALSEOK_SPOOL_DIR=str(spool))
    assert outcome.slow_request_seconds < 0.1
    assert outcome.closing_seconds < 4
    assert outcome.waiting <= 1_000
    assert outcome.dropped > 0
    assert "{('active', 0)}" == outcome.states


def test_on_a_full_disk_what_was_written_stays_whole(tmp_path: Path) -> None:
    """Whole events up to the bound of each file, and none torn."""
    served(tmp_path, "full", FALSEOK_SPOOL_DIR=str(tmp_path / "spool"))
    kept = events(tmp_path / "spool")
    assert kept
    assert len({event.seq for event in kept}) == len(kept)


def test_a_ring_that_overflows_says_how_much_it_lost(tmp_path: Path) -> None:
    """The oldest are kept; what is written and what the last heartbeat counts as lost are all there was."""
    outcome = served(tmp_path, "slow", FALSEOK_SPOOL_DIR=str(tmp_path / "spool"), FALSEOK_RING_EVENTS="50")
    kept = events(tmp_path / "spool")
    beats = [event for event in kept if event.name == "collector.heartbeat"]
    last = attributes_of(beats[-1])
    assert isinstance(last, CollectorHeartbeat)
    assert last.events_dropped == outcome.dropped
    own = sum(1 for event in kept if event.name.startswith(("collector.", "engine.")))
    assert 2_000 * engine.EVENTS_A_REQUEST <= len(kept) - own + outcome.dropped
