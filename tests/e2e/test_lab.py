"""Real engines, request by request: what the client saw against what the store says (issue: one real incident)."""

from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.engines import REQUESTS, Run, run_pair

from falseok_lab.drive import Answer, agreement

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

# Call counts travel in heartbeats, and vLLM 0.32 kills its engine core before a last one: they have to come often.
RAISING = {"FALSEOK_RAISE_IN_HOOKS": "1", "FALSEOK_HEARTBEAT_SECONDS": "0.2"}
HOOKS_OF_THE_END = {"core.loop", "worker.loop"}
"""Observed when an exception ends the loop, as `SystemExit` does: whether the last heartbeat still tells is chance."""
HOOKS_OF_FAILURES = {"worker.log_failure", "worker.failed_transfer"}
HOOKS_OF_OTHER_PAIRS = {
    "api.engine_choice",  # data parallelism
    "api.engine_choice_external",
    "core.loop_data_parallel",
    "core.finish_one_group",  # a MultiConnector without hybrid cache
    "core.invalid_blocks",  # connectors that say which blocks they could not fill
    "core.preempt",  # a cache too small
    "core.prefix_reset",
    "core.speculation",
    "worker.push_results",
    "worker.push_step",
    "worker.push_write",
}
"""What no request of a healthy pull pair takes."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parent of the data directories, one a run."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def incompatible_027(data: Path) -> Run:
    """vLLM 0.27.0, prefill bfloat16 and decode float32."""
    return run_pair(data / "a", "bad27", vllm="0.27.0", fault="dtype-mismatch")


@pytest.fixture(scope="module")
def healthy_027(data: Path) -> Run:
    """vLLM 0.27.0, both the same; also asks decode alone, for the ground truth."""
    return run_pair(data / "b", "good27", vllm="0.27.0", fault="none", direct=True)


@pytest.fixture(scope="module")
def uninstrumented_027(data: Path) -> Run:
    """The healthy pair with the collector turned off."""
    return run_pair(data / "c", "off27", vllm="0.27.0", fault="none", collector=False)


@pytest.fixture(scope="module")
def incompatible_032(data: Path) -> Run:
    """vLLM 0.32.0, prefill bfloat16 and decode float32."""
    return run_pair(data / "d", "bad32", vllm="0.32.0", fault="dtype-mismatch")


@pytest.fixture(scope="module")
def raising_healthy_027(data: Path) -> Run:
    """The healthy pair with an exception forced inside every hook; its workers are processes of their own."""
    return run_pair(
        data / "e",
        "raise27",
        vllm="0.27.0",
        fault="none",
        environment=RAISING,
        executor="mp",
    )


@pytest.fixture(scope="module")
def raising_incompatible_032(data: Path) -> Run:
    """The incompatible pair on 0.32.0 with an exception forced inside every hook."""
    return run_pair(
        data / "f",
        "raise32",
        vllm="0.32.0",
        fault="dtype-mismatch",
        environment=RAISING,
    )


def seen_by_client(run: Run) -> dict[str, tuple[int, bool]]:
    """Status and whether an error came inside the stream, by request id."""
    return {answer.external_id: (answer.status, bool(answer.error)) for answer in run.answers}


def text_of(answers: list[Answer]) -> list[tuple[str, str, str]]:
    """The answers themselves, in the order asked."""
    ordered = sorted(answers, key=lambda answer: answer.index)
    return [(answer.content, answer.reasoning, answer.finish_reason) for answer in ordered]


def assert_complete(run: Run) -> None:
    """Every event arrived, none was refused, and no hook failed on its own."""
    assert 0 == run.dead_letters
    assert 0 == run.lost_events
    assert {} == {name: hook["errors"] for name, hook in run.hooks.items() if hook["errors"]}


def test_every_200_of_the_incompatible_pair_on_0_27_is_proven_corrupt(incompatible_027: Run) -> None:
    """vLLM 0.27.0 answers 200 to all 32 after a failed receive, and each one is called corrupt, with proof."""
    run = incompatible_027
    assert {(200, False): REQUESTS} == Counter(seen_by_client(run).values())
    verdicts = {key: (row["verdict"], row["evidence"], row["reason"]) for key, row in run.verdicts.items()}
    assert dict.fromkeys(seen_by_client(run), ("corrupt", "proven", "a_missing_kv")) == verdicts
    assert all(row["http_status"] == 200 and row["evidence_events"] for row in run.verdicts.values())
    assert_complete(run)


def test_the_incident_on_0_27_names_the_differing_factor_and_the_fail_open_version(
    incompatible_027: Run,
) -> None:
    """One incident, 32 requests; dtype with both values comes first, then the receive failure that is dropped."""
    [incident] = incompatible_027.incidents
    assert ("corrupt", "proven", REQUESTS) == (incident.verdict, incident.evidence, incident.affected)
    assert ["hash-factor-dtype", "hma-receive-failure-not-propagated"] == [
        cause.id for cause in incident.causes
    ][:2]
    first = incident.causes[0].explanation
    assert "torch.bfloat16" in first
    assert "torch.float32" in first


def test_the_healthy_pair_on_0_27_is_healthy_and_quiet(healthy_027: Run) -> None:
    """All 32 are healthy with evidence of both sides, and there is no incident."""
    run = healthy_027
    assert {(200, False): REQUESTS} == Counter(seen_by_client(run).values())
    assert dict.fromkeys(seen_by_client(run), "healthy") == {
        key: row["verdict"] for key, row in run.verdicts.items()
    }
    assert [] == run.incidents
    assert_complete(run)


def test_healthy_answers_are_what_decode_computes_alone(healthy_027: Run) -> None:
    """Ground truth: under its own cache salt, decode alone gives the same greedy answers."""
    agreed = agreement(healthy_027.answers, healthy_027.direct)
    assert dict.fromkeys(seen_by_client(healthy_027), True) == agreed


def test_answers_are_the_same_with_the_collector_on_and_off(
    healthy_027: Run, uninstrumented_027: Run
) -> None:
    """The collector changes no answer, and turned off it leaves no event."""
    assert text_of(uninstrumented_027.answers) == text_of(healthy_027.answers)
    assert {} == uninstrumented_027.verdicts
    assert {} == uninstrumented_027.hooks


def test_the_incompatible_pair_on_0_32_fails_closed(incompatible_032: Run) -> None:
    """vLLM 0.32.0 answers an error to all 32, and none is called corrupt."""
    run = incompatible_032
    assert all(status >= 500 or error for status, error in seen_by_client(run).values())
    assert REQUESTS == len(seen_by_client(run))
    verdicts = {key: row["verdict"] for key, row in run.verdicts.items()}
    assert dict.fromkeys(seen_by_client(run), "failed_closed") == verdicts
    assert "corrupt" not in {incident.verdict for incident in run.incidents}
    assert_complete(run)


def test_an_exception_inside_every_hook_changes_no_answer_on_0_27(
    raising_healthy_027: Run, uninstrumented_027: Run
) -> None:
    """Every hook that a healthy pair reaches was called and raised inside; the answers are the same."""
    hooks = raising_healthy_027.hooks
    called = {name for name, hook in hooks.items() if hook["calls"]}
    assert hooks.keys() - HOOKS_OF_FAILURES - HOOKS_OF_OTHER_PAIRS == called
    raised = {name for name, hook in hooks.items() if hook["errors"]}
    assert called - HOOKS_OF_THE_END == raised - HOOKS_OF_THE_END
    assert text_of(uninstrumented_027.answers) == text_of(raising_healthy_027.answers)


def test_an_exception_inside_every_hook_changes_no_error_on_0_32(
    raising_incompatible_032: Run, incompatible_032: Run
) -> None:
    """The hooks of failures were called and raised inside; the client sees the same errors."""
    called = {name for name, hook in raising_incompatible_032.hooks.items() if hook["errors"]}
    assert HOOKS_OF_FAILURES <= called
    plain = sorted(seen for _, seen in _by_index(incompatible_032))
    assert plain == sorted(seen for _, seen in _by_index(raising_incompatible_032))


def _by_index(run: Run) -> list[tuple[int, tuple[int, bool]]]:
    return sorted((answer.index, (answer.status, bool(answer.error))) for answer in run.answers)
