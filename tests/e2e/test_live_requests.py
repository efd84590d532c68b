"""Requests that are not plain, on a real 0.32.0 pair: choices, traces, preemption, clients that leave, other endpoints.

One pair serves them all: decode has 24 blocks of cache, so that eight long answers at once cannot all stay, and
prefill's lease is short, so that what nobody reads is let go while the test watches.
"""

from pathlib import Path
from typing import Literal

import pytest
from tests.e2e.engines import Run, Shape, run_pair

from falseok_lab.drive import Answer, DriveSettings
from falseok_lab.sides import Side

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

LEASE_SECONDS = 5
TOOLS = ["--enable-auto-tool-choice", "--tool-call-parser=hermes"]


def waits(run: str, stream: Literal["always", "never"]) -> DriveSettings:
    """One request whose client leaves while decode waits for a cache that nobody hands out."""
    return DriveSettings(
        run=run, requests=1, endpoint="chat", stream=stream, unreachable_prefill=True, leave_after_seconds=1.0
    )


DRIVES = (
    DriveSettings(run="plain", requests=4, traceparent=True),
    DriveSettings(run="two", requests=2, n=2, temperature=1.0, traceparent=True),
    DriveSettings(run="responses", requests=4, endpoint="responses", traceparent=True),
    DriveSettings(run="tool", requests=1, endpoint="chat", stream="never", tools=True, max_tokens=80),
    DriveSettings(run="long", requests=8, concurrency=8, max_tokens=500, ignore_eos=True, stream="always"),
    DriveSettings(
        run="reading",
        requests=2,
        concurrency=1,
        stream="always",
        leave_after_seconds=0.7,
        max_tokens=800,
        ignore_eos=True,
    ),
    waits("waiting-streamed", "always"),
    waits("waiting-whole", "never"),
)


@pytest.fixture(scope="module")
def pull(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One pair, all drives."""
    data: Path = tmp_path_factory.mktemp("pull")
    shape = Shape(
        lease_seconds=LEASE_SECONDS,
        prefill=Side(arguments=TOOLS),
        decode=Side(kv_cache_blocks=24, arguments=TOOLS),
    )
    return run_pair(
        data,
        "pull",
        vllm="0.32.0",
        fault="none",
        shape=shape,
        drives=DRIVES,
        quiet_seconds=LEASE_SECONDS + 2,
    )


def waiting(run: Run) -> list[Answer]:
    """The requests whose clients left while decode waited for the cache."""
    return run.of("waiting-streamed") + run.of("waiting-whole")


def names_of(run: Run, answer: Answer) -> list[str]:
    """Names of what decode said of a request, in the order of time."""
    return [event["name"] for event in run.events(answer.external_id)]


def test_every_request_has_exactly_one_row(pull: Run) -> None:
    """Whatever became of it, and nothing else has one: neither prefill's legs nor vLLM's own cleanup requests."""
    asked = sorted(answer.external_id for answer in pull.answers)
    assert asked == sorted(row["external_id"] for row in pull.rows)


def test_plain_requests_are_healthy_and_carry_the_clients_trace(pull: Run) -> None:
    """The W3C trace id that the client sent is on the row."""
    for answer in pull.of("plain"):
        row = pull.row(answer.external_id)
        assert ("healthy", answer.traceparent.split("-")[1]) == (row["verdict"], row["trace_id"]), row


def test_two_choices_are_one_row_with_two_children(pull: Run) -> None:
    """Both children read the one offer that prefill named; whether the second came in time is a race of its own."""
    for answer in pull.of("two"):
        assert (200, 2) == (answer.status, answer.choices)
        row = pull.row(answer.external_id)
        # The first choice's completion ends the lease; the second may begin to read after that.
        assert row["verdict"] == "healthy" or row["missing"] == ["valid_lease"], row
        assert (2, 200) == (row["children"], row["http_status"])
        assert answer.traceparent.split("-")[1] == row["trace_id"]
        assert 2 == names_of(pull, answer).count("sched.admit")


def test_the_responses_api_is_seen_and_judged_like_the_others(pull: Run) -> None:
    """Whole and streamed; its engine ids look otherwise, its answer event has the client's id."""
    for answer in pull.of("responses"):
        assert answer.answered, answer
        row = pull.row(answer.external_id)
        assert ("healthy", 200, answer.stream) == (row["verdict"], row["http_status"], bool(row["stream"])), (
            row
        )
        assert answer.traceparent.split("-")[1] == row["trace_id"]


def test_a_tool_call_is_counted(pull: Run) -> None:
    """Its length and its finish reason, not its text."""
    [answer] = pull.of("tool")
    assert (1, "tool_calls") == (answer.tool_calls, answer.finish_reason)
    assert "healthy" == pull.row(answer.external_id)["verdict"]
    [response] = [event for event in pull.events(answer.external_id) if event["name"] == "api.response"]
    assert ["tool_calls"] == response["attrs"]["finish_reasons"]
    assert 0 < response["attrs"]["tool_call_characters"]


def test_a_preempted_request_is_judged_by_its_second_admission(pull: Run) -> None:
    """It computes its prompt again; what it delivered before came out of a sound receive."""
    preempted = [row for row in pull.rows if row["preemptions"]]
    assert preempted, "24 blocks were enough"
    received = {answer.external_id: answer.completion_tokens for answer in pull.answers}
    for row in preempted:
        names = [event["name"] for event in pull.events(row["external_id"])]
        assert ("healthy", received[row["external_id"]]) == (row["verdict"], row["output_tokens"]), row
        assert int(row["preemptions"]) == names.count("sched.preempt")
        assert int(row["preemptions"]) + 1 == names.count("sched.admit")


def test_long_answers_that_stayed_are_healthy(pull: Run) -> None:
    """Beside those that were preempted."""
    rows = [pull.row(answer.external_id) for answer in pull.of("long")]
    assert ["healthy"] * 8 == [row["verdict"] for row in rows]


def test_a_client_that_leaves_while_decode_waits_for_the_cache_is_aborted(pull: Run) -> None:
    """Streamed or not: one row each, no token, and the handshake's failure afterwards convicts nobody."""
    for answer in waiting(pull):
        assert answer.left
        names = names_of(pull, answer)
        finish, end = names.index("sched.finish"), names.index("kv.read.end")
        assert names.index("sched.wait_remote") < finish < end
        row = pull.row(answer.external_id)
        assert ("aborted", 0) == (row["verdict"], row["output_tokens"]), row


def test_what_decode_did_not_fetch_is_let_go_when_the_lease_ends(pull: Run) -> None:
    """Prefill was not told that the client left."""
    for answer in waiting(pull):
        events = pull.events(answer.external_id, group="prefill")
        [offer] = [event for event in events if event["name"] == "kv.offer"]
        [end] = [event for event in events if event["name"] == "kv.lease_end"]
        [release] = [event for event in events if event["name"] == "kv.release"]
        assert "expired" == end["attrs"]["reason"]
        assert LEASE_SECONDS - 1 < (release["ts"] - offer["ts"]) / 1e6


def test_a_client_that_leaves_in_the_middle_of_its_answer_is_judged_by_what_it_got(pull: Run) -> None:
    """Tokens were delivered: the abort is a fact of the row, not its verdict."""
    for answer in pull.of("reading"):
        assert answer.left
        assert answer.content
        row = pull.row(answer.external_id)
        assert ("healthy", "abort") == (row["verdict"], row["finish_reason"]), row
        assert 0 < row["output_tokens"] < 800
        [response] = [event for event in pull.events(answer.external_id) if event["name"] == "api.response"]
        assert response["attrs"]["client_disconnected"]


def test_nothing_was_refused_lost_or_raised(pull: Run) -> None:
    """No dead letter, no gap, no error in a hook."""
    assert (0, 0) == (pull.dead_letters, pull.lost_events)
    assert {} == {name: hook["errors"] for name, hook in pull.hooks.items() if hook["errors"]}
