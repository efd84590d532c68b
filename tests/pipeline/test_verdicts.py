"""Every request gets exactly the verdict its evidence allows."""

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.stories import Fleet, Story, corrupt, failed_closed, healthy
from tests.pipeline.verdict_cases import CASES, PAIRS, Case, fleet_of

from falseok_collector.attributes import ApiResponse
from falseok_pipeline.embedded import EmbeddedStore

NAMES = (*CASES, *PAIRS)


def insert(store: EmbeddedStore, lines: list[bytes]) -> None:
    """Store lines."""
    store.insert_events(b"".join(line + b"\n" for line in lines))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The verdicts of all cases, each between engines of its own, in one store."""
    by_decode_engine: dict[str, list[dict[str, Any]]] = {}
    path: Path = tmp_path_factory.mktemp("verdicts") / "store"
    with EmbeddedStore(path) as store:
        store.migrate(1)
        for number, name in enumerate(NAMES):
            fleet = fleet_of(number)
            if name in PAIRS:
                PAIRS[name][0](fleet)
            tell = CASES[name].tell if name in CASES else lambda engines: healthy(engines, 1)
            insert(store, [*fleet.configs(), *tell(fleet)])
        for row in store.query("SELECT * FROM request_verdicts"):
            by_decode_engine.setdefault(row["engine_id"], []).append(row)
    return by_decode_engine


def only_row(rows: dict[str, list[dict[str, Any]]], name: str) -> dict[str, Any]:
    """The row of a case's request; there must be just one."""
    [row] = [row for row in rows[f"decode-{NAMES.index(name)}"] if row["external_id"] == "req-1"]
    return row


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES.keys())
def test_verdict(rows: dict[str, list[dict[str, Any]]], name: str, case: Case) -> None:
    """Verdict, level of evidence, reason, what is missing, and the facts the case names."""
    row = only_row(rows, name)
    expected: dict[str, Any] = {
        "verdict": case.verdict,
        "evidence": case.evidence,
        "reason": case.reason,
        "missing": list(case.missing),
    } | case.row
    assert expected == {column: row[column] for column in expected}


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_that_proves_nothing(rows: dict[str, list[dict[str, Any]]], name: str) -> None:
    """A read that succeeded between unequal engines is not called healthy."""
    row = only_row(rows, name)
    assert ("unobserved", list(PAIRS[name][1])) == (row["verdict"], row["missing"])
    assert f"cannot be judged, missing: {PAIRS[name][1][0]}" == row["explanation"]


def test_every_row_has_a_verdict_and_a_sentence(rows: dict[str, list[dict[str, Any]]]) -> None:
    """The view is total, and what it says of one column agrees with the others."""
    for row in (row for group in rows.values() for row in group):
        assert row["explanation"]
        assert (row["verdict"] == "corrupt") == (row["reason"] != "")
        assert (row["verdict"] == "unobserved") == bool(row["missing"])
        assert (row["evidence"] == "proven") == (row["verdict"] in {"corrupt", "failed_closed", "recovered"})
        assert row["evidence_events"] or row["missing"]


def test_the_proof_is_named_event_by_event(store: EmbeddedStore) -> None:
    """Failure, admission, wait, resume, finish and response: enough to show the claim."""
    fleet = Fleet()
    insert(store, [*fleet.configs(), *corrupt(fleet, 1)])
    [row] = store.query("SELECT evidence_events FROM request_verdicts")
    names = store.query(
        "SELECT name FROM events WHERE has({ids:Array(String)}, id) ORDER BY ts",
        {"ids": row["evidence_events"]},
    )
    assert [
        "sched.admit",
        "sched.wait_remote",
        "kv.read.end",
        "sched.resume",
        "sched.finish",
        "api.response",
    ] == [name["name"] for name in names]


def test_late_evidence_upgrades_the_verdict(store: EmbeddedStore) -> None:
    """The worker's events come long after the others: unobserved until then, corrupt afterwards."""
    fleet = Fleet()
    lines = [*fleet.configs(), *corrupt(fleet, 1)]
    late = [line for line in lines if b'"kv.read.end"' in line]
    insert(store, [line for line in lines if line not in late])
    assert [{"verdict": "unobserved"}] == store.query("SELECT verdict FROM request_verdicts")
    insert(store, late)
    assert [{"verdict": "corrupt"}] == store.query("SELECT verdict FROM request_verdicts")


def test_a_prefill_leg_is_never_a_row(store: EmbeddedStore) -> None:
    """It hands over and answers a router, not a client; any one of its events tells."""
    for number, kept in enumerate(("sched.admit", "sched.finish", "kv.offer", "api.response"), 1):
        story = Story(fleet_of(number), number)
        story.prefill()
        insert(store, [line for line in story.lines if f'"{kept}"'.encode() in line])
    assert [{"n": 4}] == store.query("SELECT count() AS n FROM requests")
    assert [] == store.query("SELECT * FROM request_verdicts")


def test_a_cleanup_request_is_nobodys_answer(store: EmbeddedStore) -> None:
    """vLLM sends one to itself, only to tell prefill that it may let go."""
    fleet = Fleet()
    story = Story(fleet, 1)
    story.decode_request = "83fbc1f1182d550f"
    story.admit(leg="cleanup")
    story.read_start(mode="notify_only")
    story.finish(leg="cleanup", output_tokens=0, finish_reason="abort")
    insert(store, story.lines)
    assert [{"n": 1}] == store.query("SELECT count() AS n FROM requests")
    assert [] == store.query("SELECT * FROM request_verdicts")


def test_one_response_answers_all_its_engine_requests(store: EmbeddedStore) -> None:
    """n > 1: each engine request is judged by its own transfer and by the one answer they share."""
    fleet = Fleet()
    first, second = Story(fleet, 1), Story(fleet, 2)
    for story in (first, second):
        story.prefill()
        story.admit()
        story.wait()
        story.failed_read()
        story.resume()
        story.finish()
    both = [first.decode_request, second.decode_request]
    answer = ApiResponse(
        http_status=200,
        choices=2,
        completion_tokens=32,
        engine_request_ids=both,
        kv_transfer_in="remote_prefill",
    )
    first.decode_event(fleet.decode.api, answer, transfer_id="")
    insert(store, [*fleet.configs(), *first.lines, *second.lines])
    columns = "SELECT request_id, verdict, http_status"
    rows = store.query(f"{columns} FROM engine_request_verdicts ORDER BY request_id")
    assert [{"request_id": name, "verdict": "corrupt", "http_status": 200} for name in both] == rows
    answers = store.query(f"{columns}, children, engine_request_ids FROM request_verdicts")
    assert [rows[0] | {"children": 2, "engine_request_ids": both}] == answers


def test_without_the_engines_configurations_nothing_is_healthy(store: EmbeddedStore) -> None:
    """Whether both sides mean the same bytes is not known then."""
    insert(store, healthy(Fleet(), 1))
    assert [{"verdict": "unobserved", "missing": ["engine.config"]}] == store.query(
        "SELECT verdict, missing FROM request_verdicts"
    )


def test_group_and_model_come_from_what_is_known(store: EmbeddedStore) -> None:
    """Before the configurations arrive the engines' own ids and the response have to do."""
    fleet = Fleet()
    fleet.decode.api.group = fleet.decode.core.group = fleet.decode.worker.group = ""
    lines = failed_closed(fleet, 1)
    insert(store, [line for line in lines if b'"3689deac-prefill","group"' not in line])
    columns = "SELECT prefill_group, decode_group, model FROM request_verdicts"
    assert [
        {"prefill_group": "3689deac-prefill", "decode_group": "36c6eafa-decode", "model": "tiny"}
    ] == store.query(columns)
    insert(store, Fleet().configs())
    assert [
        {"prefill_group": "10.0.0.1:5600", "decode_group": "10.0.0.2:5700", "model": "tiny"}
    ] == store.query(columns)
