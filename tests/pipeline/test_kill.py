"""kill -9 in the middle of a long replay, ten times: afterwards every event is there, once."""

import random
from pathlib import Path

from tests.pipeline import killing
from tests.pipeline.stories import Fleet, corrupt, failed_closed, healthy
from tests.pipeline.test_folds import VIEWS

from falseok_pipeline import replay
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore

EVENTS = 200_000
KILLS = 10
BATCHES = 60
"""Many enough that ten killed processes cannot reach the end."""


def recorded() -> list[bytes]:
    """One of each kind of request, and what the engines say of themselves."""
    fleet = Fleet()
    lines = fleet.configs()
    for number in range(0, 90, 3):
        lines += [*healthy(fleet, number), *corrupt(fleet, number + 1), *failed_closed(fleet, number + 2)]
    return [
        *lines,
        fleet.handshake(),
        fleet.heartbeat(fleet.decode.core),
        fleet.heartbeat(fleet.decode.worker),
    ]


def contents(data: DataDirectory) -> dict[str, object]:
    """Number and digest of the rows of every view, and of the events."""
    with EmbeddedStore(data.store) as store:
        found: dict[str, object] = {
            view: store.query(
                f"SELECT count() AS rows, groupBitXor(sipHash64(toString(tuple(*)))) AS digest FROM {view}"
            )[0]
            for view in VIEWS
        }
        found["events"] = store.query(
            "SELECT count() AS events, uniqExact(id) AS ids, groupBitXor(sipHash64(id, ts, toJSONString(attrs))) AS digest "
            "FROM events FINAL"
        )[0]
        found["dead letters"] = store.query("SELECT count() AS n FROM dead_letters")[0]["n"]
        return found


def test_ten_kills_leave_the_same_rows_as_none(tmp_path: Path) -> None:
    """Each kill falls after the first and before the last durable insert; the rows are those of an undisturbed run."""
    original = recorded()
    lines = list(replay.multiply(original, EVENTS // len(original) + 1, shift_micros=1_000_000))
    undisturbed, killed = DataDirectory(tmp_path / "undisturbed"), DataDirectory(tmp_path / "killed")
    replay.write_spool(undisturbed.lab / "replay" / "spool", lines)
    killing.copy_spool(undisturbed.lab / "replay" / "spool", killed.lab / "replay" / "spool")
    total = killing.spooled_bytes(killed)
    batch_bytes = total // BATCHES

    batch_seconds = killing.run_to_the_end(killing.Plan(undisturbed, EVENTS, batch_bytes))
    plan = killing.Plan(killed, EVENTS, batch_bytes)
    durable = killing.kill_again_and_again(plan, KILLS, batch_seconds, random.Random())
    assert KILLS == len(durable)
    assert all(0 < there < total for there in durable), durable
    assert sorted(durable) == durable
    killing.run_to_the_end(plan)

    expected = contents(undisturbed)
    assert len(lines) == expected["events"]["events"] == expected["events"]["ids"]  # type: ignore[index]
    assert expected == contents(killed)
