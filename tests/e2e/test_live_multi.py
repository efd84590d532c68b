"""A real `MultiConnector` of `NixlConnector` and `ExampleConnector` on 0.32.0: which child served what."""

from pathlib import Path

import pytest
from tests.e2e.engines import Run, Shape, run_pair

from falseok_lab.answers import agreement
from falseok_lab.drive import DriveSettings

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PLAIN = DriveSettings(run="plain", requests=8, traceparent=True)


@pytest.fixture(scope="module")
def multi(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Eight requests through the router, then the same prompts to decode alone, which finds their cache as files."""
    data: Path = tmp_path_factory.mktemp("multi")
    shape = Shape(connector="multi")
    return run_pair(data, "multi", vllm="0.32.0", fault="none", shape=shape, drives=(PLAIN,), direct=True)


def test_every_request_is_answered_and_both_ways_agree(multi: Run) -> None:
    """What came over NIXL and what came out of files are the same cache."""
    assert [True] * 16 == [answer.answered for answer in multi.answers + multi.direct]
    assert [True] * 8 == list(agreement(multi.answers, multi.direct).values())


def test_what_nixl_served_is_judged_as_ever(multi: Run) -> None:
    """One row a request, healthy with evidence of both sides, although another connector sat beside."""
    for answer in multi.answers:
        row = multi.row(answer.external_id)
        assert ("healthy", 200, 16) == (row["verdict"], row["http_status"], row["output_tokens"]), row
        assert answer.traceparent.split("-")[1] == row["trace_id"]


def test_what_the_files_served_is_unobserved_and_names_the_mode(multi: Run) -> None:
    """The request asked for no remote cache, got one all the same, and is never called healthy or local."""
    for answer in multi.direct:
        row = multi.row(answer.external_id)
        assert ("unobserved", "mode", 200) == (row["verdict"], row["reason"], row["http_status"])
        assert "ExampleConnector" in row["explanation"]
        events = multi.events(answer.external_id)
        [start] = [event["attrs"] for event in events if event["name"] == "kv.read.start"]
        [end] = [event["attrs"] for event in events if event["name"] == "kv.read.end"]
        assert ("other", "ExampleConnector") == (start["mode"], start["connector"])
        assert 0 < start["external_tokens"]
        assert "ok" == end["outcome"]


def test_nothing_was_refused_lost_or_raised(multi: Run) -> None:
    """No dead letter, no gap, no error in a hook."""
    assert (0, 0) == (multi.dead_letters, multi.lost_events)
    assert {} == {name: hook["errors"] for name, hook in multi.hooks.items() if hook["errors"]}
