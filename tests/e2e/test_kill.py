"""kill -9 of `falseok run` in the middle of a long replay, ten times: afterwards every event is there, once."""

import random
from pathlib import Path

from tests.e2e import killing
from tests.pipeline.test_folds import VIEWS

from falseok_lab import recording
from falseok_pipeline import replay
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore

RECORDING = "vllm-0.27.0-dtype-mismatch"
EVENTS = 200_000
KILLS = 10


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
    original = list(recording.load(recording.shipped(RECORDING)).lines())
    lines = list(replay.multiply(original, EVENTS // len(original) + 1, shift_micros=1_000_000))
    assert len(lines) >= EVENTS
    undisturbed, killed = DataDirectory(tmp_path / "undisturbed"), DataDirectory(tmp_path / "killed")
    replay.write_spool(undisturbed.lab / "replay" / "spool", lines)
    killing.copy_spool(undisturbed.lab / "replay" / "spool", killed.lab / "replay" / "spool")
    total = killing.spooled_bytes(killed)

    killing.run_to_the_end(undisturbed)
    durable = killing.kill_again_and_again(killed, KILLS, random.Random())
    assert KILLS == len(durable)
    assert all(0 < there < total for there in durable), durable
    assert sorted(durable) == durable
    killing.run_to_the_end(killed)

    expected = contents(undisturbed)
    assert {"events": len(lines), "ids": len(lines)}.items() <= expected["events"].items()  # type: ignore[attr-defined]
    assert expected == contents(killed)
