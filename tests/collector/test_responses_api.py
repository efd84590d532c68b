"""Answers of `/v1/responses`, streamed and whole (shapes of vLLM 0.27 to 0.33)."""

from typing import Any

import msgspec
import pytest

from falseok_collector.response import CONTENT, REASONING, TOOL_CALLS, ResponseSummary

USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 4, "input_tokens_per_turn": [], "cached_tokens_per_turn": []},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 3, "tool_output_tokens": 0},
    "total_tokens": 18,
}
CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "find", "arguments": ""}
OUTPUT = [
    {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Héllo"}]},
    {**CALL, "arguments": "{}"},
]


def response(**changes: Any) -> dict[str, Any]:
    """A response object."""
    body = {
        "id": "resp_1",
        "object": "response",
        "model": "tiny",
        "status": "completed",
        "output": OUTPUT,
        "usage": USAGE,
        "incomplete_details": None,
        "kv_transfer_params": None,
        "reasoning": None,
        "text": None,
    }
    return {**body, **changes}


def streamed(*events: dict[str, Any]) -> ResponseSummary:
    """The summary of a stream of these events."""
    summary = ResponseSummary()
    summary.stream = True
    for event in events:
        payload = msgspec.json.encode(event).decode()
        summary.feed(f"event: {event['type']}\ndata: {payload}\n\n".encode())
    summary.finish()
    return summary


BEGIN: list[dict[str, Any]] = [
    {"type": "response.created", "response": response(status="in_progress", output=[], usage=None)},
    {"type": "response.in_progress", "response": response(status="in_progress", output=[], usage=None)},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "summary": []}},
    {"type": "response.reasoning_text.delta", "delta": "H"},
    {"type": "response.reasoning_text.delta", "delta": "m"},
    {"type": "response.reasoning_text.done", "text": "Hm"},
    {"type": "response.output_item.added", "item": {"type": "message", "role": "assistant", "content": []}},
    {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
    {"type": "response.output_text.delta", "delta": "Hé", "logprobs": []},
    {"type": "response.output_text.delta", "delta": "llo", "logprobs": []},
    {"type": "response.output_text.done", "text": "Héllo"},
    {"type": "response.output_item.added", "output_index": 2, "item": CALL},
    {"type": "response.function_call_arguments.delta", "delta": "{}"},
    {"type": "response.function_call_arguments.done", "arguments": "{}"},
]


def told(summary: ResponseSummary) -> dict[str, Any]:
    """What a summary says of the answer itself."""
    (choice,) = summary.choices.values()
    return {
        "characters": [summary.characters(kind) for kind in (REASONING, CONTENT, TOOL_CALLS)],
        "kinds": summary.kinds,
        "tool_calls": choice.tool_calls,
        "finish_reason": choice.finish_reason,
        "tokens": [
            summary.prompt_tokens,
            summary.completion_tokens,
            summary.cached_tokens,
            summary.reasoning_tokens,
        ],
        "model": summary.model,
        "error": (summary.error_in_stream, summary.error_type),
    }


EXPECTED = {
    "characters": [2, 5, 6],
    "kinds": ["reasoning", "content", "tool_calls"],
    "tool_calls": 1,
    "finish_reason": "completed",
    "tokens": [11, 7, 4, 3],
    "model": "tiny",
    "error": (False, ""),
}


def test_a_stream() -> None:
    """Deltas count once: what `done` events and the last one repeat does not."""
    summary = streamed(*BEGIN, {"type": "response.completed", "response": response()})
    assert EXPECTED == told(summary)
    assert (True, len(BEGIN) + 1) == (summary.stream_complete, summary.chunks)


def test_a_whole_body_says_the_same() -> None:
    """Items instead of events."""
    summary = ResponseSummary()
    summary.feed(msgspec.json.encode(response()))
    summary.finish()
    assert EXPECTED == told(summary)


def test_a_limit_that_was_reached() -> None:
    """The reason says more than the status."""
    end = response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    summary = streamed(*BEGIN, {"type": "response.incomplete", "response": end})
    assert {**EXPECTED, "finish_reason": "max_output_tokens"} == told(summary)
    assert summary.stream_complete


@pytest.mark.parametrize(
    "end",
    [
        {
            "type": "response.failed",
            "response": response(status="failed", error={"code": "server_error", "message": "no"}),
        },
        {"type": "error", "code": "server_error", "message": "no", "param": None},
        {"type": "error", "error": {"type": "server_error", "message": "no", "code": 500}},
    ],
    ids=["failed", "error event", "error object"],
)
def test_a_stream_that_failed(end: dict[str, Any]) -> None:
    """The status is 200 already."""
    summary = streamed(*BEGIN, end)
    assert (True, "server_error", False) == (
        summary.error_in_stream,
        summary.error_type,
        summary.stream_complete,
    )


def test_a_stream_that_just_stops() -> None:
    """No last event, no finish."""
    summary = streamed(*BEGIN)
    assert ({**EXPECTED, "finish_reason": "", "tokens": [0, 0, 0, 0]}, False) == (
        told(summary),
        summary.stream_complete,
    )


def test_transfer_parameters_that_go_out() -> None:
    """Of a prefill leg."""
    summary = streamed({"type": "response.completed", "response": response(kv_transfer_params={"a": 1})})
    assert summary.kv_transfer_out


def test_events_of_other_kinds_say_nothing() -> None:
    """What is not known here is passed over."""
    odd: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", "delta": {"a": 1}},
        {"type": "response.new", "delta": "x"},
    ]
    assert 0 == streamed(*odd).characters(CONTENT)
