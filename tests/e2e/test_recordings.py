"""The shipped recordings of real engines, through spool, pipeline and judge: what they showed live, they show here."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_collector.events import attributes_of, decode
from falseok_lab import recording
from falseok_pipeline import replay
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service

NAMES = ("vllm-0.27.0-dtype-mismatch", "vllm-0.27.0-healthy", "vllm-0.32.0-dtype-mismatch")
FOLDED = ("request_verdicts", "requests", "transfers", "engines", "handshakes", "collectors")


def lines_of(name: str) -> list[bytes]:
    """All events of a shipped recording."""
    return list(recording.load(recording.shipped(name)).lines())


def fold(
    directory: Path, batches: Sequence[Sequence[bytes]]
) -> tuple[dict[str, list[str]], list[Incident], Any]:
    """Run the service over spool segments of the given lines; every folded view as sorted rows, and the incidents."""
    data = DataDirectory(directory)
    for batch in batches:
        with Service.open(data, version="test", serve_queries=False) as service:
            replay.write_spool(data.spool, batch)
            service.run_once()
    with Service.open(data, version="test", serve_queries=False) as service:
        store = service.store
        rows = {
            view: sorted(repr(canonical(row)) for row in store.query(f"SELECT * FROM {view}"))
            for view in FOLDED
        }
        count = store.query("SELECT count() AS events, uniqExact(id) AS ids FROM events FINAL")[0]
        return rows, judge(store), count


def canonical(value: Any) -> Any:
    """A value in which the order of a set (the folds' arrays) no longer shows."""
    if isinstance(value, dict):
        return sorted((key, canonical(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sorted((canonical(item) for item in value), key=repr)
    return value


@pytest.fixture(scope="module", params=NAMES)
def replayed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, list[str]], list[Incident], Any]:
    """Each recording, folded once."""
    name = str(request.param)
    return name, *fold(tmp_path_factory.mktemp("data"), [lines_of(name)])


def test_recordings_keep_decoding() -> None:
    """Every event ever recorded is read strictly, envelope and attributes, by today's contract."""
    for name in NAMES:
        for line in lines_of(name):
            attributes_of(decode(line))


def test_each_request_gets_the_verdict_its_ground_truth_asks_for(tmp_path: Path) -> None:
    """Corrupt where a 200 disagrees with decode alone, failed closed where the client got an error, else healthy."""
    expected_by_name = {
        "vllm-0.27.0-dtype-mismatch": {("corrupt", "proven"): 32},
        "vllm-0.27.0-healthy": {("healthy", "none"): 32},
        "vllm-0.32.0-dtype-mismatch": {("failed_closed", "proven"): 32},
    }
    for name, expected in expected_by_name.items():
        data = DataDirectory(tmp_path / name)
        replay.write_spool(data.spool, lines_of(name))
        with Service.open(data, version="test", serve_queries=False) as service:
            service.run_once()
            rows = service.store.query("SELECT * FROM request_verdicts WHERE leg = 'decode'")
            lost = service.store.query("SELECT count() AS n FROM dead_letters")
        assert expected == Counter((row["verdict"], row["evidence"]) for row in rows)
        assert [{"n": 0}] == lost


def test_only_the_incompatible_pairs_have_an_incident(
    replayed: tuple[str, dict[str, list[str]], list[Incident], Any],
) -> None:
    """One incident each, with the differing factor as its first cause; none for the healthy pair."""
    name, _, incidents, _ = replayed
    if name == "vllm-0.27.0-healthy":
        assert [] == incidents
        return
    [incident] = incidents
    assert 32 == incident.affected
    assert "hash-factor-dtype" == incident.causes[0].id
    assert "torch.bfloat16" in incident.causes[0].explanation
    assert "torch.float32" in incident.causes[0].explanation
    fails_open = "hma-receive-failure-not-propagated" in {cause.id for cause in incident.causes}
    assert (name == "vllm-0.27.0-dtype-mismatch") == fails_open


def test_twice_shuffled_and_cut_otherwise_gives_the_same_rows(
    replayed: tuple[str, dict[str, list[str]], list[Incident], Any], tmp_path: Path
) -> None:
    """Delivery may repeat, reorder and regroup events; the folded rows and the count of events stay the same."""
    name, rows, incidents, count = replayed
    lines = lines_of(name)
    again = lines * 2
    random.Random(name).shuffle(again)
    cut = len(again) // 3
    other_rows, other_incidents, other_count = fold(
        tmp_path, [again[:cut], again[cut : cut + 7], again[cut + 7 :]]
    )
    assert count == other_count
    assert {"events": len(lines), "ids": len(lines)} == count
    assert rows == other_rows
    assert incidents == other_incidents
