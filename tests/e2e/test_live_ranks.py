"""Engines of several processes on a real 0.32.0 pair: tensor-parallel ranks, data-parallel ranks, API servers."""

from pathlib import Path

import pytest
from tests.e2e.engines import Run, Shape, run_pair

from falseok_lab.drive import DriveSettings
from falseok_lab.sides import Side

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PLAIN = DriveSettings(run="plain", requests=8, traceparent=True)


@pytest.fixture(scope="module")
def tensor_parallel(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two ranks of decode read from one of prefill. The first requests take half a minute on two cores."""
    data: Path = tmp_path_factory.mktemp("ranks")
    shape = Shape(decode=Side(tensor_parallel_size=2))
    return run_pair(data, "ranks", vllm="0.32.0", fault="none", shape=shape, drives=(PLAIN,))


@pytest.fixture(scope="module")
def data_parallel(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two engine cores of decode behind two API servers."""
    data: Path = tmp_path_factory.mktemp("cores")
    shape = Shape(decode=Side(data_parallel_size=2, api_server_count=2))
    return run_pair(data, "cores", vllm="0.32.0", fault="none", shape=shape, drives=(PLAIN,))


def test_each_rank_tells_of_its_own_read_and_the_request_has_one_row(tensor_parallel: Run) -> None:
    """Two starts and two ends, ranks 0 and 1; the row is healthy only because both arrived."""
    run = tensor_parallel
    for answer in run.answers:
        events = run.events(answer.external_id)
        read = [
            event for event in events if event["name"] == "kv.read.start" and event["attrs"]["mode"] == "read"
        ]
        ended = [event for event in events if event["name"] == "kv.read.end"]
        assert [0, 1] == sorted(event["rank"] for event in read)
        assert [(0, "ok"), (1, "ok")] == sorted((event["rank"], event["attrs"]["outcome"]) for event in ended)
        row = run.row(answer.external_id)
        assert ("healthy", 200) == (row["verdict"], row["http_status"]), row


def test_each_rank_of_decode_shook_hands(tensor_parallel: Run) -> None:
    """Once, with the one rank of prefill; the engine is one engine."""
    run = tensor_parallel
    engines = {row["decode_engine_id"] for row in run.rows}
    assert 1 == len(engines)
    assert len(run.answers) == len(run.rows)


def test_requests_to_two_cores_have_one_row_each_on_the_core_that_answered(data_parallel: Run) -> None:
    """The API server's part and the engine core's are one row, whichever of the cores and servers it was."""
    run = data_parallel
    # vLLM gives a handshake five seconds, which two cores with eight processes do not always have.
    expected = [("healthy", 200) if answer.answered else ("failed_closed", 500) for answer in run.answers]
    assert 6 <= expected.count(("healthy", 200))
    rows = [run.row(answer.external_id) for answer in run.answers]
    assert expected == [(row["verdict"], row["http_status"]) for row in rows], rows
    for answer, row in zip(run.answers, rows, strict=True):
        assert answer.traceparent.split("-")[1] == row["trace_id"]
        [admit] = [event for event in run.events(answer.external_id) if event["name"] == "sched.admit"]
        assert admit["engine_id"] == row["engine_id"]
    assert 2 == len({row["engine_id"] for row in rows}), "one core took them all"


@pytest.mark.parametrize("name", ["tensor_parallel", "data_parallel"])
def test_nothing_was_refused_lost_or_raised(name: str, request: pytest.FixtureRequest) -> None:
    """No dead letter, no gap, no error in a hook."""
    run: Run = request.getfixturevalue(name)
    assert (0, 0) == (run.dead_letters, run.lost_events)
    assert {} == {hook: seen["errors"] for hook, seen in run.hooks.items() if seen["errors"]}
