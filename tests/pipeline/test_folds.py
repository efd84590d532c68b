"""The law of the folds: the same events give the same rows, whatever their order, repetition and batches."""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.log_stories import CASES as LOG_CASES
from tests.pipeline.stories import Fleet, Story
from tests.pipeline.verdict_cases import CASES, fleet_of

from falseok_collector.attributes import CollectorHookUnavailable, EngineExit, HookState
from falseok_pipeline.embedded import EmbeddedStore

VIEWS = {
    "requests": "engine_id, request_id",
    "transfers": "transfer_id",
    "engines": "engine_id",
    "engine_pairs": "prefill_engine_id, decode_engine_id",
    "handshakes": "id",
    "handshake_pairs": "prefill_engine_id, decode_engine_id",
    "collectors": "boot",
    "engine_request_verdicts": "engine_id, request_id",
    "request_verdicts": "engine_id, request_id",
    "request_ways": "engine_id, request_id",
    "incident_candidates": "verdict, reason, prefill_group, decode_group, model",
    "configuration_differences": "prefill_engine_id, decode_engine_id, factor",
    "log_requests": "engine_id, request_id",
    "responses": "id",
}
"""Every view over events, with the columns that make its rows unique."""


def all_lines() -> list[bytes]:
    """Every case there is, and every event name that a fold reads."""
    lines: list[bytes] = []
    for number, case in enumerate(CASES.values()):
        fleet = fleet_of(number)
        lines += [*fleet.configs(), *case.tell(fleet), fleet.handshake(), fleet.heartbeat(fleet.decode.core)]
    fleet = Fleet()
    fleet.decode.dtype = "torch.float32"
    lines += [*fleet.configs(), *fleet.configs()]
    lines.append(fleet.handshake("failed", failure_type="hash_mismatch"))
    lines.append(fleet.heartbeat(fleet.decode.worker, [HookState(name="read", state="active", calls=2)]))
    lines.append(fleet.decode.core.emit(fleet.tick(), CollectorHookUnavailable(hook="x", reason="signature")))
    lines.append(fleet.decode.core.emit(fleet.tick(), EngineExit(process="engine_core", reason="clean")))
    story = Story(fleet, 1)
    story.prefill()
    story.release("expired")
    story.read_start("push", connector="NixlPushConnector")
    for name, (tell_log, *_) in LOG_CASES.items():
        lines += tell_log(name).lines
    return [*lines, *story.lines]


def rows_of(store: EmbeddedStore) -> dict[str, list[dict[str, Any]]]:
    """All rows of all views, in the order of their keys."""
    found = {view: store.query(f"SELECT * FROM {view} ORDER BY {keys}") for view, keys in VIEWS.items()}
    found["events"] = store.query(
        "SELECT id, ts, name, toJSONString(attrs) AS attrs FROM events FINAL ORDER BY id"
    )
    return found


def fold(
    path: Path, batches: Sequence[Sequence[bytes]], *, merge: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """Rows after these inserts, one a batch; with `merge`, after the store put its parts together."""
    with EmbeddedStore(path) as store:
        store.migrate(1)
        for batch in batches:
            store.insert_events(b"".join(line + b"\n" for line in batch))
        if merge:
            tables = store.query(
                "SELECT name FROM system.tables WHERE engine LIKE '%MergeTree' AND database = 'default'"
            )
            for table in tables:
                store.command(f"OPTIMIZE TABLE {table['name']} FINAL")
        return rows_of(store)


def cut(lines: Sequence[bytes], places: Sequence[int]) -> list[Sequence[bytes]]:
    """The lines in batches that end at the places."""
    bounds = sorted({0, len(lines), *places})
    return [lines[start:end] for start, end in pairwise(bounds)]


class Rows(dict[str, list[dict[str, Any]]]):
    """Rows by view; too many to be shown whole."""

    def __repr__(self) -> str:
        return f"{sum(map(len, self.values()))} rows"


LINES = all_lines()


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Rows after one insert of everything in order."""
    return Rows(fold(tmp_path_factory.mktemp("straight") / "store", [LINES]))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    places=st.lists(st.integers(1, 2 * len(LINES) - 1), max_size=6),
    merge=st.booleans(),
)
def test_twice_shuffled_and_cut_otherwise_is_the_same(
    straight: Rows, seed: int, places: list[int], merge: bool
) -> None:
    """Every event twice, in any order, in any batches, before and after the store merged its parts."""
    lines = LINES * 2
    random.Random(seed).shuffle(lines)
    with TemporaryDirectory() as folder:
        rows = fold(Path(folder) / "store", cut(lines, places), merge=merge)
    for view, expected in straight.items():
        assert expected == rows[view], view


def test_one_event_at_a_time_backwards_is_the_same(tmp_path: Path) -> None:
    """The latest event first, each in an insert of its own."""
    lines = LINES[-40:]
    assert fold(tmp_path / "a" / "store", [lines]) == fold(
        tmp_path / "b" / "store", [[line] for line in reversed(lines)]
    )


def test_every_view_shows_something_and_is_named_here(straight: Rows, store: EmbeddedStore) -> None:
    """A view that stays empty proves nothing, and a new view must come under the law."""
    assert [] == [view for view, rows in straight.items() if not rows]
    views = store.query("SELECT name FROM system.tables WHERE engine = 'View' AND database = 'default'")
    steps = {"request_legs", "request_facts", "dead_letters"}
    assert set(VIEWS) == {str(view["name"]) for view in views} - steps


def test_collectors_count_what_is_missing(store: EmbeddedStore) -> None:
    """Gaps in the numbers of a process, however often and in whatever order its events came."""
    fleet = Fleet()
    lines = [fleet.heartbeat(fleet.decode.core) for _ in range(10)]
    kept = [line for at, line in enumerate(lines) if at not in {3, 7}]
    store.insert_events(b"".join(line + b"\n" for line in [*kept[4:], *kept, *kept[:2]]))
    [row] = store.query("SELECT * FROM collectors")
    assert (8, 10, 2, "engine_core", 9) == (
        row["events_seen"],
        row["max_seq"],
        row["lost_events"],
        row["process"],
        row["events_emitted"],
    )


def test_an_engine_is_what_its_processes_say_the_latest_report_first(store: EmbeddedStore) -> None:
    """The worker's word goes first; what it does not say, the others do; a later report replaces an earlier one."""
    fleet = Fleet()
    first = fleet.prefill.config(fleet.tick(), "kv_both")
    fleet.prefill.dtype = "torch.float32"
    second = fleet.prefill.config(fleet.tick(), "kv_producer")
    store.insert_events(b"".join(line + b"\n" for line in [*second, *first]))
    [row] = store.query("SELECT * FROM engines")
    expected = {
        "engine_id": "3689deac-prefill",
        "group": "10.0.0.1:5600",
        "role": "prefill",
        "model": "models/tiny",
        "served_model_name": "tiny",
        "vllm_version": "0.27.0",
        "versions": {"nixl": "1.5.1", "vllm": "0.27.0"},
        "dtype": "torch.float32",
        "factors": {"dtype": "torch.float32", "num_kv_heads": "1", "vllm_version": "0.27.0"},
        "enforce_handshake_compat": True,
        "reports_failed_receives": False,
        "prefix_caching": None,
        "region_lengths_bytes": [32768, 32768],
        "kv_lease_seconds": 30.0,
        "processes": ["api_server", "worker"],
        "config_events": ["pworker0-1", "papi0-1", "pworker0-2", "papi0-2"],
        "has_config": True,
    }
    assert expected == {column: row[column] for column in expected}
