"""What is read out of a response as it passes by, however it is cut."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collector.bodies import DONE, STREAM, chat, chunk, delta, event

from falseok_collector.response import (
    CONTENT,
    MAX_BODY_BYTES,
    REASONING,
    TOOL_CALLS,
    ChoiceSummary,
    ResponseSummary,
)


def streamed(*pieces: bytes) -> ResponseSummary:
    """The summary of a stream that arrived in these pieces."""
    summary = ResponseSummary()
    summary.stream = True
    for piece in pieces:
        summary.feed(piece)
    summary.finish()
    return summary


def whole(body: bytes | dict[str, Any]) -> ResponseSummary:
    """The summary of a body that was not streamed."""
    summary = ResponseSummary()
    summary.feed(body if isinstance(body, bytes) else msgspec.json.encode(body))
    summary.finish()
    return summary


def readings(summary: ResponseSummary) -> dict[str, Any]:
    """Everything a summary says."""
    said = {name: value for name, value in vars(summary).items() if not name.startswith("_")}
    choices = {index: picture(choice) for index, choice in summary.choices.items()}
    return {
        **said,
        "choices": choices,
        "kinds": summary.kinds,
        "comments": summary.comments,
        "complete": summary.stream_complete,
    }


def picture(choice: ChoiceSummary) -> dict[str, Any]:
    """Everything a choice says, its text as far as it is kept."""
    content, reasoning = choice.content, choice.reasoning
    assert content is not None
    assert reasoning is not None
    return {
        "content": content.head(),
        "reasoning": reasoning.head(),
        "characters": tuple(choice.characters.values()),
        "tool_calls": choice.tool_calls,
        "kinds": choice.kinds,
        "finish_reason": choice.finish_reason,
    }


def reasons(summary: ResponseSummary) -> dict[int, str]:
    """Finish reasons by choice, where there are any."""
    return {index: choice.finish_reason for index, choice in summary.choices.items() if choice.finish_reason}


ALL_OF_STREAM = {
    "stream": True,
    "choices": {
        0: {
            "content": "Héllo",
            "reasoning": "Let me think …",
            "characters": (len("Héllo"), len("Let me think …"), len("find") + len('{"q": 1}')),
            "tool_calls": 1,
            "kinds": ["reasoning", "content", "tool_calls"],
            "finish_reason": "tool_calls",
        },
        1: {
            "content": "你好",
            "reasoning": "",
            "characters": (2, 0, 0),
            "tool_calls": 0,
            "kinds": ["content"],
            "finish_reason": "length",
        },
    },
    "kinds": ["reasoning", "content", "tool_calls"],
    "comments": 1,
    "chunks": 9,
    "ended": True,
    "complete": True,
    "unreadable": "",
    "unreadable_events": 0,
    "cached_tokens": 0,
    "reasoning_tokens": 0,
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "error_type": "",
    "error_in_stream": False,
    "kv_transfer_out": False,
    "model": "tiny",
    "response_bytes": len(STREAM),
}


def test_a_stream_in_one_piece() -> None:
    """Lengths in characters, reasons by choice, usage, model."""
    assert ALL_OF_STREAM == readings(streamed(STREAM))


def test_a_stream_cut_in_two_at_any_byte() -> None:
    """In the middle of a character, of a line break, of anything."""
    cuts = range(len(STREAM) + 1)
    wrong = [at for at in cuts if readings(streamed(STREAM[:at], STREAM[at:])) != ALL_OF_STREAM]
    assert [] == wrong


def test_a_stream_byte_by_byte() -> None:
    """The smallest pieces there are."""
    assert ALL_OF_STREAM == readings(streamed(*(STREAM[at : at + 1] for at in range(len(STREAM)))))


@given(st.lists(st.integers(0, len(STREAM)), max_size=12).map(sorted))
def test_a_stream_cut_anywhere(cuts: list[int]) -> None:
    """However the server groups what it sends."""
    edges = [0, *cuts, len(STREAM)]
    pieces = [STREAM[begin:end] for begin, end in pairwise(edges)]
    assert ALL_OF_STREAM == readings(streamed(*pieces))


def test_windows_line_ends() -> None:
    """Server-sent events may end their lines with CR LF."""
    stream = STREAM.replace(b"\n", b"\r\n")
    assert ALL_OF_STREAM == {**readings(streamed(stream)), "response_bytes": len(STREAM)}
    assert ALL_OF_STREAM == {
        **readings(streamed(*(stream[at : at + 1] for at in range(len(stream))))),
        "response_bytes": len(STREAM),
    }


def test_a_stream_that_ends_without_a_line_break() -> None:
    """The last line still counts."""
    assert 5 == streamed(event(chunk(delta(content="Hello"))).rstrip(b"\n")).characters(CONTENT)


def test_a_stream_that_just_stops() -> None:
    """A torn line says nothing, what came before it does."""
    summary = streamed(event(chunk(delta(content="Hello"))), b'data: {"choices": [{"index": 0, "de')
    assert (5, {}) == (summary.characters(CONTENT), reasons(summary))


@pytest.mark.parametrize(
    "noise",
    [
        b": ping\n\n",
        b"event: message\n",
        b"id: 7\n",
        b"retry: 10\n",
        b"\n\n\n",
        b"data:\n",
        b"data: \n",
        b"data",
    ],
)
def test_lines_that_are_no_data_are_passed_over(noise: bytes) -> None:
    """Comments, keep-alives, names of events."""
    summary = streamed(noise + b"\n", event(chunk(delta(content="Hello"))), event(DONE))
    assert (5, "") == (summary.characters(CONTENT), summary.error_type)


def test_the_space_after_data_is_optional() -> None:
    """As the standard has it."""
    assert 5 == streamed(event(chunk(delta(content="Hello"))).replace(b"data: ", b"data:")).characters(
        CONTENT
    )


def test_feeding_tells_when_output_reached_the_client() -> None:
    """The first chunk of vLLM holds only the role: that is not yet a token."""
    summary = ResponseSummary()
    summary.stream = True
    pieces = [
        event(chunk(delta(role="assistant", content=""))),
        b": ping\n\n",
        event(chunk(delta(content="H"))),
        event(chunk(delta(reasoning="H"))),
        event(chunk(delta(tool_calls=[{"function": {"name": "f"}}]))),
        event(chunk(delta(finish_reason="stop"))),
        event(DONE),
    ]
    assert [False, False, True, True, True, False, False] == [summary.feed(piece) for piece in pieces]


def test_an_error_in_a_stream() -> None:
    """The status is 200 already: only the event inside says that the answer failed."""
    error = {"error": {"message": "internal", "type": "InternalServerError", "param": None, "code": 500}}
    summary = streamed(event(chunk(delta(content="Hello"))), event(error), event(DONE))
    assert (True, "InternalServerError", {}) == (
        summary.error_in_stream,
        summary.error_type,
        reasons(summary),
    )


def test_usage_told_with_every_chunk_counts_once() -> None:
    """`continuous_usage_stats`: the last one is the sum."""
    usages = [{"prompt_tokens": 5, "completion_tokens": tokens} for tokens in (1, 2, 3)]
    summary = streamed(*(event(chunk(delta(content="x"), usage=usage)) for usage in usages))
    assert (5, 3) == (summary.prompt_tokens, summary.completion_tokens)


def test_a_completion_that_is_not_streamed() -> None:
    """Body, usage and reason."""
    summary = whole(chat())
    assert (5, {0: "stop"}, 7, 2, "tiny", {0}) == (
        summary.characters(CONTENT),
        reasons(summary),
        summary.prompt_tokens,
        summary.completion_tokens,
        summary.model,
        set(summary.choices),
    )


def test_several_choices_reasoning_and_tool_calls_that_are_not_streamed() -> None:
    """Lengths are sums over the choices, reasons are kept by choice."""
    calls = [{"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
    messages = [{"content": "Hello", "reasoning": "Hm"}, {"content": None, "tool_calls": calls}]
    choices = [
        {"index": index, "message": message, "finish_reason": reason}
        for index, message, reason in zip((0, 1), messages, ("stop", "tool_calls"), strict=True)
    ]
    summary = whole(chat(choices=choices))
    assert (5, 2, 6, {0: "stop", 1: "tool_calls"}) == (
        summary.characters(CONTENT),
        summary.characters(REASONING),
        summary.characters(TOOL_CALLS),
        reasons(summary),
    )


def test_text_completions() -> None:
    """`/v1/completions` has text instead of messages."""
    choices = [{"index": 0, "text": "Hello", "finish_reason": "length"}]
    summary = whole({"object": "text_completion", "model": "tiny", "choices": choices})
    assert (5, {0: "length"}) == (summary.characters(CONTENT), reasons(summary))
    assert 5 == streamed(event({"choices": choices})).characters(CONTENT)


@pytest.mark.parametrize(
    ("parameters", "expected"), [({"remote_engine_id": "e"}, True), (None, False), ({}, True)]
)
def test_a_prefill_leg_hands_out_transfer_parameters(parameters: Any, expected: bool) -> None:
    """That is how a router's first hop is told from an answer."""
    summary = whole(chat(kv_transfer_params=parameters))
    assert (expected, 5) == (summary.kv_transfer_out, summary.characters(CONTENT))


def test_an_error_body() -> None:
    """Not a stream: the status tells it, the type is kept."""
    summary = whole({"error": {"message": "no", "type": "BadRequestError", "code": 400}})
    assert (False, "BadRequestError") == (summary.error_in_stream, summary.error_type)


@pytest.mark.parametrize(
    "error", ["text", ["list"], {"message": "no type"}, {"type": 5}, {"type": "x" * 999}]
)
def test_an_error_of_another_shape(error: Any) -> None:
    """It is an error all the same, and what is kept of it is bounded."""
    summary = whole({"error": error})
    assert summary.error_type
    assert len(summary.error_type) <= 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"\x00\xff\xfe",
        b"null",
        b"[]",
        b'{"choices": 5}',
        b'{"choices": [{"index": "a"}]}',
        b'{"choices": null}',
        b'{"a":' + b"[" * 100_000,
        b'{"usage": {"prompt_tokens": null}}',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_bodies_nobody_foresaw_say_nothing(body: bytes) -> None:
    """The client gets them all the same; size is known, the rest is empty."""
    for summary in (whole(body), streamed(b"data: " + body + b"\n\n")):
        assert (0, {}, "") == (summary.characters(CONTENT), reasons(summary), summary.error_type)
    assert len(body) == whole(body).response_bytes


@given(st.lists(st.binary(max_size=50)))
def test_no_bytes_make_it_fail(pieces: list[bytes]) -> None:
    """It sits in the way of every answer."""
    assert sum(map(len, pieces)) == streamed(*pieces).response_bytes
    assert len(b"".join(pieces)) == whole(b"".join(pieces)).response_bytes


def test_a_huge_body_is_not_kept() -> None:
    """Memory is bounded; what fits in afterwards does not pass for a body."""
    summary = ResponseSummary()
    piece = b" " * (1 << 20)
    for _ in range(9):
        summary.feed(piece)
        assert len(summary._buffer) <= MAX_BODY_BYTES
    summary.feed(msgspec.json.encode(chat()))
    assert 0 == len(summary._buffer)
    summary.finish()
    assert (0, {}) == (summary.characters(CONTENT), reasons(summary))
    assert summary.response_bytes > 9 << 20


def test_a_huge_line_of_a_stream_is_passed_over() -> None:
    """Memory is bounded by a line; the lines after it count again."""
    line = event(chunk(delta(content="x" * 3_000_000)))
    summary = ResponseSummary()
    summary.stream = True
    for at in range(0, len(line), 65_536):
        summary.feed(line[at : at + 65_536])
        assert len(summary._buffer) <= 1 << 20
    summary.feed(event(chunk(delta(content="Hello", finish_reason="stop"))))
    summary.finish()
    assert 5 == summary.characters(CONTENT)


def test_the_end_of_a_huge_line_does_not_pass_for_a_line() -> None:
    """Text that a model wrote may look like an event."""
    summary = streamed(b"data: " + b"x" * 3_000_000, event(chunk(delta(content="Hello"))))
    assert 0 == summary.characters(CONTENT)
