"""The incompatible pair on the two versions around the boundary: 0.29.0 fails open, 0.30.0 fails closed."""

from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.engines import Run, run_pair

from falseok_lab.drive import DriveSettings, counts

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

SIXTEEN = DriveSettings(requests=16)


@pytest.fixture(scope="module")
def last_open(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """vLLM 0.29.0, prefill bfloat16 and decode float32."""
    data: Path = tmp_path_factory.mktemp("open")
    return run_pair(data, "open29", vllm="0.29.0", fault="dtype-mismatch", drives=(SIXTEEN,))


@pytest.fixture(scope="module")
def first_closed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """vLLM 0.30.0, prefill bfloat16 and decode float32."""
    data: Path = tmp_path_factory.mktemp("closed")
    return run_pair(data, "closed30", vllm="0.30.0", fault="dtype-mismatch", drives=(SIXTEEN,))


def test_on_0_29_every_200_is_proven_corrupt(last_open: Run) -> None:
    """As on 0.27.0: the receive fails, decode answers all the same."""
    assert {"200": 16} == counts(last_open.answers)
    judged = Counter((row["verdict"], row["evidence"], row["reason"]) for row in last_open.rows)
    assert {("corrupt", "proven", "a_missing_kv"): 16} == judged


def test_on_0_30_a_streamed_request_ends_as_if_it_were_well_and_is_called_failed(first_closed: Run) -> None:
    """Its 200 has no token and no finish reason, and no error either; the others are errors. None is corrupt."""
    streamed = [answer for answer in first_closed.answers if answer.stream]
    assert {"200 without an end": 8} == counts(streamed)
    assert {("", "", "")} == {(one.content, one.error, one.finish_reason) for one in streamed}
    assert {"500": 8} == counts([answer for answer in first_closed.answers if not answer.stream])
    rows = [first_closed.row(answer.external_id) for answer in first_closed.answers]
    assert {("failed_closed", 0): 16} == Counter((row["verdict"], row["output_tokens"]) for row in rows)
    assert "corrupt" not in {incident.verdict for incident in first_closed.incidents}


@pytest.mark.parametrize("name", ["last_open", "first_closed"])
def test_nothing_was_refused_lost_or_raised(name: str, request: pytest.FixtureRequest) -> None:
    """No dead letter, no gap, no error in a hook."""
    run: Run = request.getfixturevalue(name)
    assert (0, 0) == (run.dead_letters, run.lost_events)
    assert {} == {hook: seen["errors"] for hook, seen in run.hooks.items() if seen["errors"]}
