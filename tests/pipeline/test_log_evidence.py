"""What may be concluded from events that came out of log lines, and how surely."""

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.log_stories import CASES, Decode

from falseok_pipeline.embedded import EmbeddedStore

Rows = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The verdict of every case, by the case's name."""
    with EmbeddedStore(tmp_path_factory.mktemp("logs") / "store") as store:
        return verdicts(store, [tell(name) for name, (tell, *_) in CASES.items()])


def verdicts(store: EmbeddedStore, engines: list[Decode]) -> Rows:
    """The one row of each engine."""
    store.migrate(1)
    store.insert_events(b"".join(line + b"\n" for decode in engines for line in decode.lines))
    found = store.query("SELECT * FROM request_verdicts")
    assert len(engines) == len(found)
    return {row["engine_id"]: row for row in found}


@pytest.mark.parametrize("name", CASES)
def test_verdict_and_evidence(rows: Rows, name: str) -> None:
    """Lines alone are never proof; an answer that does not fit the failure is no evidence."""
    _, verdict, evidence = CASES[name]
    row = rows[name]
    assert (verdict, evidence) == (row["verdict"], row["evidence"])
    assert (row["reason"] == "a_missing_kv") == (verdict == "corrupt")


def test_the_explanation_says_what_it_rests_on(rows: Rows) -> None:
    """Which line, which version, and how the answer was joined."""
    row = rows["answered though failed"]
    assert (
        "the log says that the transfer failed (handshake_failed) and not that vLLM 0.27.0 told its scheduler; "
        "answered with HTTP 200, joined by count and time (12 failed requests, 12 answers with 200)"
    ) == row["explanation"]
    assert ("resume", "fail", "tiny") == (row["resume_branch"], row["policy"], row["model"])
    assert [f"log-answered though failed-{seq}" for seq in (2, 3)] == row["evidence_events"]
    assert "computed the tokens itself" in rows["recomputed"]["explanation"]


def test_hooks_decide_where_there_are_both(tmp_path: Path) -> None:
    """A request that a hook saw is judged as the hooks saw it: without the resume nothing is known."""
    decode = Decode(engine_id="both").failed().answered()
    hooked = decode.lines[1].replace(b'"origin":"log"', b'"origin":"hook"').replace(b"log-both", b"hook1")
    decode.lines.append(hooked.replace(b"kv.read.end", b"sched.admit"))
    with EmbeddedStore(tmp_path / "store") as store:
        row = verdicts(store, [decode])["both"]
    assert ("unobserved", "none") == (row["verdict"], row["evidence"])
