"""Real processes, a real broker, and everything that breaks at night. Nothing lost, nothing double, nobody paged twice."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.fleet import Pipelines, Sender, consumed
from tests.chaos.outcomes import OUTCOMES, Outcome
from tests.kafka.broker import Broker
from tests.kafka.filling import contents, recorded_lines
from tests.pipeline.hostile import hostile_lines
from tests.pipeline.http_front import RunningFront

from falseok_alerts.judge import judge
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import PipelineError
from falseok_pipeline.server_store import ServerAddress, ServerStore

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.timeout(1_800),
]
SEED = 20261201


class Scenario:
    """Sends a recorded incident several times over, lets things be broken meanwhile, and compares with a calm run."""

    def __init__(self, broker: Broker, topics: tuple[str, str], front: RunningFront, directory: Path) -> None:
        self.broker, self.topics, self.front, self.directory = broker, topics, front, directory
        self.dice = random.Random(SEED)
        self.lines = with_a_clock_that_jumps(recorded_lines(12))
        self.bad_lines = hostile_lines(self.dice, 60)
        self.ids_seen: set[str] = set()
        self._watching = threading.Event()

    def run(
        self, name: str, *, named: bool, seconds: float, break_things: Callable[[Pipelines], str]
    ) -> Outcome:
        """Send for so many seconds while things are broken; returns what came of it."""
        sender = Sender(self.broker, self.topics, self.lines, self.bad_lines, self.dice)
        watcher = threading.Thread(target=self._watch, name="judge")
        with Pipelines(
            self.broker, self.topics, self.front, self.directory, group=name, named=named
        ) as pipelines:
            for number in range(2):
                pipelines.start(number)
            watcher.start()
            sending = sender.send(seconds)
            try:
                done = break_things(pipelines)
                sending.join()
                consumed(self.broker, self.topics, name)
            finally:
                self._watching.set()
                watcher.join()
        outcome = self._compare(name, done)
        OUTCOMES.append(outcome)
        return outcome

    def _watch(self) -> None:
        """Judge now and then, as the pager's process does, also while the store is away."""
        while not self._watching.wait(2.0):
            try:
                with ServerStore(ServerAddress.parse(self.front.store_url)) as store:
                    self.ids_seen |= {incident.id for incident in judge(store)}
            except PipelineError:
                continue

    def _compare(self, name: str, done: str) -> Outcome:
        with EmbeddedStore(self.directory / "calm") as store:
            store.migrate(1)
            store.insert_events(b"".join(line + b"\n" for line in self.lines))
            calm, calm_incidents = contents(store), {incident.id for incident in judge(store)}
        with ServerStore(ServerAddress.parse(self.front.store_url)) as shared:
            found, incidents = contents(shared), {incident.id for incident in judge(shared)}
            buried = {
                row["original_base64"] for row in shared.query("SELECT original_base64 FROM dead_letters")
            }
            (repeated,) = shared.query("SELECT count() - uniqExact(id) AS n FROM events FINAL")
        differing = sum(len(set(calm[view]) ^ set(found[view])) for view in calm if view != "events")
        assert calm_incidents == incidents
        return Outcome(
            scenario=name,
            done=done,
            events=len(calm["events"]),
            lost=len(set(calm["events"]) - set(found["events"])),
            double=int(repeated["n"]) + differing + len(set(found["events"]) - set(calm["events"])),
            bad_lines=len(set(self.bad_lines)),
            unburied=len({base64_of(line) for line in self.bad_lines} - buried),
            incidents=len(incidents),
            paged_twice=len((self.ids_seen | incidents) - calm_incidents),
        )


@pytest.fixture
def scenario(broker: Broker, topics: tuple[str, str], front: RunningFront, tmp_path: Path) -> Scenario:
    """One to break things in."""
    return Scenario(broker, topics, front, tmp_path)


def base64_of(line: bytes) -> str:
    """As the store shows an original."""
    import base64  # noqa: PLC0415 - only here

    return base64.b64encode(line).decode()


def with_a_clock_that_jumps(lines: list[bytes]) -> list[bytes]:
    """The same events; the wall clock of every third process goes back an hour in the middle of its life."""
    import msgspec  # noqa: PLC0415 - only here

    boots: dict[str, int] = {}
    changed = []
    for line in lines:
        event = msgspec.json.decode(line)
        number = boots.setdefault(event["boot"], len(boots))
        if number % 3 == 0 and event["seq"] > 20:
            line = msgspec.json.encode({**event, "ts": event["ts"] - 3_600_000_000})  # noqa: PLW2901
        changed.append(line)
    return changed


def fine(outcome: Outcome) -> bool:
    """Nothing lost, nothing double, every bad line buried, nobody paged twice; and there was something to lose."""
    wrong = (outcome.lost, outcome.double, outcome.unburied, outcome.paged_twice)
    return wrong == (0, 0, 0, 0) and min(outcome.events, outcome.bad_lines, outcome.incidents) > 0


@pytest.mark.parametrize("kills", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_pipelines_that_are_killed_at_random(scenario: Scenario, kills: int) -> None:
    """kill -9 under load, at any point of reading, inserting and committing; each is started again at once."""

    def break_things(pipelines: Pipelines) -> str:
        for _ in range(kills):
            time.sleep(scenario.dice.uniform(0.8, 2.6))
            number = scenario.dice.randrange(2)
            pipelines.kill(number)
            pipelines.start(number)
        return f"kill -9, {pipelines.kills} times"

    assert fine(scenario.run("killed", named=True, seconds=kills * 1.8, break_things=break_things))


def test_pipelines_that_come_and_go(scenario: Scenario) -> None:
    """The partitions are divided anew while batches are under way: one more, one leaves, one dies and is replaced."""

    def break_things(pipelines: Pipelines) -> str:
        for number in (2, 3):
            time.sleep(2.0)
            pipelines.start(number)
        time.sleep(3.0)
        pipelines.end(0)
        time.sleep(2.0)
        pipelines.kill(1)
        time.sleep(4.0)
        pipelines.start(0)
        time.sleep(2.0)
        pipelines.end(2)
        return "3 came, 2 left, 1 died"

    assert fine(scenario.run("rebalanced", named=False, seconds=20.0, break_things=break_things))


@pytest.mark.parametrize("away", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_a_broker_that_is_stopped_and_started_again(scenario: Scenario, away: int) -> None:
    """The pipelines wait, and go on where they were."""

    def break_things(_pipelines: Pipelines) -> str:
        time.sleep(4.0)
        scenario.broker.stop()
        time.sleep(away)
        scenario.broker.start()
        time.sleep(2.0)
        scenario.broker.kill()
        scenario.broker.start()
        return f"stopped for {away} s, then killed and started"

    assert fine(scenario.run("broker", named=True, seconds=12.0, break_things=break_things))


def test_a_store_that_refuses_writes_and_then_dies(scenario: Scenario) -> None:
    """A full disk for a while, then no server at all; nothing is dropped meanwhile."""

    def break_things(_pipelines: Pipelines) -> str:
        time.sleep(3.0)
        scenario.front.refuse(25)
        time.sleep(5.0)
        for _ in range(3):
            scenario.front.kill()
            time.sleep(2.0)
            scenario.front.start()
            time.sleep(2.0)
        return "25 inserts refused, killed 3 times"

    assert fine(scenario.run("store", named=True, seconds=15.0, break_things=break_things))
