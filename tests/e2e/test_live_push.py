"""A real `NixlPushConnector` pair on 0.32.0: prefill writes into decode's blocks, and each request has one right row."""

from pathlib import Path

import pytest
from tests.e2e.engines import Run, Shape, run_pair

from falseok_lab.drive import DriveSettings

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PLAIN = DriveSettings(run="plain", requests=8, traceparent=True)
TWO = DriveSettings(run="two", requests=2, n=2, temperature=1.0, endpoint="chat")
RESPONSES = DriveSettings(run="responses", requests=2, endpoint="responses")


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One pair for all of it."""
    data: Path = tmp_path_factory.mktemp("push")
    shape = Shape(connector="push")
    return run_pair(
        data, "push", vllm="0.32.0", fault="none", shape=shape, drives=(PLAIN, TWO, RESPONSES), direct=False
    )


def test_every_pushed_request_is_answered(push: Run) -> None:
    """The router that serves a pull pair serves a push pair; the responses API needs its one id for both."""
    assert [(200, True)] * 12 == [(answer.status, answer.answered) for answer in push.answers]
    assert [2, 2] == [answer.choices for answer in push.of("two")]


def test_a_pushed_request_has_one_row_that_is_unobserved_and_names_the_mode(push: Run) -> None:
    """What is judged of a pull does not apply: it is never called healthy, however well it went."""
    for answer in push.of("plain"):
        row = push.row(answer.external_id)
        assert ("unobserved", "mode", 200) == (row["verdict"], row["reason"], row["http_status"])
        assert 16 == row["output_tokens"]
        assert "push" in row["explanation"]


def test_decode_says_that_it_waited_for_a_push(push: Run) -> None:
    """One start and one end, of mode push, with the tokens the push was to bring."""
    for answer in push.of("plain"):
        events = push.events(answer.external_id)
        [start] = [event["attrs"] for event in events if event["name"] == "kv.read.start"]
        [end] = [event["attrs"] for event in events if event["name"] == "kv.read.end"]
        [wait] = [event["attrs"] for event in events if event["name"] == "sched.wait_remote"]
        assert ("push", "NixlPushConnector") == (start["mode"], start["connector"])
        assert "ok" == end["outcome"]
        assert 0 < wait["external_tokens"]


def test_prefill_says_what_it_wrote(push: Run) -> None:
    """Start and end of the write, for the transfer prefill offered."""
    for answer in push.of("plain"):
        events = push.events(answer.external_id, group="prefill")
        names = [event["name"] for event in events]
        assert 1 == names.count("kv.write.start")
        [end] = [event for event in events if event["name"] == "kv.write.end"]
        [offer] = [event for event in events if event["name"] == "kv.offer"]
        assert "ok" == end["attrs"]["outcome"]
        assert offer["transfer_id"] == end["transfer_id"] != ""


def test_the_trace_of_the_client_is_on_the_row(push: Run) -> None:
    """Its W3C trace id."""
    for answer in push.of("plain"):
        assert answer.traceparent.split("-")[1] == push.row(answer.external_id)["trace_id"]


def test_two_choices_are_one_row(push: Run) -> None:
    """Each child got a push of its own; the request counts once."""
    for answer in push.of("two"):
        row = push.row(answer.external_id)
        assert ("unobserved", "mode", 200, 2) == (
            row["verdict"],
            row["reason"],
            row["http_status"],
            row["children"],
        )


def test_the_responses_api_has_one_row_under_the_clients_id(push: Run) -> None:
    """Its ids look otherwise; status and trace of its answer are there."""
    for answer in push.of("responses"):
        row = push.row(answer.external_id)
        assert ("unobserved", "mode", 200) == (row["verdict"], row["reason"], row["http_status"])


def test_nothing_was_refused_lost_or_raised(push: Run) -> None:
    """No dead letter, no gap, no error in a hook."""
    assert (0, 0) == (push.dead_letters, push.lost_events)
    assert {} == {name: hook["errors"] for name, hook in push.hooks.items() if hook["errors"]}
