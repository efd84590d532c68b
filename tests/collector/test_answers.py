"""Answers that a client gets from vLLM, as `api.response` tells them: each as its front end sends it (0.27 to 0.33)."""

import asyncio
import gzip
from collections.abc import MutableMapping
from typing import Any

import msgspec
import pytest
from tests.collector.bodies import DONE, chat, chunk, delta, event
from tests.collector.hooks.reports import Reports

from falseok_collector import tap
from falseok_collector.attributes import AnsweredChoice, ApiResponse
from falseok_collector.hooks.probe import Probe

CHAT = "/v1/chat/completions"
ROLE = event(chunk(delta(role="assistant", content="")))
STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]


def answered(
    *pieces: bytes,
    asked: Any = None,
    headers: list[tuple[bytes, bytes]] | None = None,
    path: str = CHAT,
    request_headers: list[tuple[bytes, bytes]] | None = None,
    leaves: bool = False,
) -> ApiResponse:
    """What is told of an answer in these pieces; the client may leave before the end."""
    exchanges: list[tap.Exchange] = []
    raw = asked if isinstance(asked, bytes) else msgspec.json.encode(asked if asked is not None else {})

    async def application(_: Any, receive: tap.Receive, send: tap.Send) -> None:
        assert raw == (await receive())["body"]
        start = {
            "type": "http.response.start",
            "status": 200,
            "headers": STREAM if headers is None else headers,
        }
        await send(start)
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if leaves:
            await receive()
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    incoming: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": raw, "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> tap.Message:
        return incoming.pop(0)

    async def send(_: tap.Message) -> None:
        pass

    probe = Probe("api.application", "test", report=Reports())
    scope = {"type": "http", "method": "POST", "path": path, "headers": request_headers or []}
    asyncio.run(tap.watch(application, scope, receive, send, guard=probe.observe, done=exchanges.append))
    assert 0 == probe.errors
    return exchanges[0].to_attributes()


def test_a_stream_with_an_error_in_it() -> None:
    """The status is 200, [DONE] comes, and the answer failed."""
    error = {"error": {"message": "x", "type": "InternalServerError", "param": None, "code": 500}}
    seen = answered(ROLE, event(chunk(delta(content="He"))), event(error), event(DONE))
    assert (200, True, "InternalServerError", False, []) == (
        seen.http_status,
        seen.error_in_stream,
        seen.error_type,
        seen.stream_complete,
        seen.finish_reasons,
    )


def test_an_empty_stream_that_ends_cleanly() -> None:
    """What vLLM 0.30.0 answers after a receive that failed: nothing, no reason, [DONE]."""
    seen = answered(ROLE, event(DONE))
    assert (200, False, False, [], 0, 1) == (
        seen.http_status,
        seen.error_in_stream,
        seen.stream_complete,
        seen.finish_reasons,
        seen.content_characters,
        seen.choices,
    )


def test_a_stream_that_says_everything_is_complete() -> None:
    """The other side of the two before."""
    seen = answered(ROLE, event(chunk(delta(content="He", finish_reason="stop"))), event(DONE))
    assert (True, ["stop"], 2) == (seen.stream_complete, seen.finish_reasons, seen.chunks)


@pytest.mark.parametrize(
    "pieces",
    [
        [ROLE, event(chunk(delta(content="He", finish_reason="stop")))],
        [ROLE, event(chunk(delta(content="He"))), event(DONE)],
        [event(DONE)],
        [],
    ],
    ids=["no [DONE]", "no reason", "no choice", "nothing"],
)
def test_a_stream_without_its_end_is_not_complete(pieces: list[bytes]) -> None:
    """Whatever is missing."""
    assert answered(*pieces).stream_complete is False


def test_a_disconnect() -> None:
    """What the client got until then is told."""
    seen = answered(ROLE, event(chunk(delta(content="Hello"))), leaves=True)
    assert (True, 5, False) == (seen.client_disconnected, seen.content_characters, seen.stream_complete)


def test_a_tool_call() -> None:
    """In pieces, two of them."""
    calls = [
        [{"index": 0, "id": "c0", "type": "function", "function": {"name": "find", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"q": 1}'}}],
        [{"index": 1, "id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}],
    ]
    pieces = [event(chunk(delta(tool_calls=call))) for call in calls]
    seen = answered(ROLE, *pieces, event(chunk(delta(finish_reason="tool_calls"))), event(DONE))
    assert (2, 17, ["tool_calls"], ["tool_calls"], True) == (
        seen.tool_calls,
        seen.tool_call_characters,
        seen.output_kinds,
        seen.finish_reasons,
        seen.stream_complete,
    )


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_an_empty_content_beside_reasoning(name: str) -> None:
    """The old name of the field, too."""
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    seen = answered(
        ROLE,
        event(chunk(delta(0, None, **{name: "Thinking"}))),
        event(chunk(delta(finish_reason="stop"))),
        event(chunk(usage=usage)),
        event(DONE),
        asked={"chat_template_kwargs": {"enable_thinking": True}},
    )
    assert (0, 8, ["reasoning"], 4, 8, "on") == (
        seen.content_characters,
        seen.reasoning_characters,
        seen.output_kinds,
        seen.reasoning_tokens,
        seen.cached_tokens,
        seen.requested_thinking,
    )


def test_two_choices() -> None:
    """Each with its own lengths, order and reason."""
    seen = answered(
        event(chunk(delta(role="assistant", content=""), delta(index=1, role="assistant", content=""))),
        event(chunk(delta(index=1, content="Hi"))),
        event(chunk(delta(reasoning="Hm"))),
        event(chunk(delta(content="Hello"), delta(index=1, finish_reason="length"))),
        event(chunk(delta(finish_reason="stop"))),
        event(DONE),
        asked={"n": 2, "temperature": 0.5, "max_tokens": 10},
    )
    first = AnsweredChoice(
        index=0,
        finish_reason="stop",
        kinds=["reasoning", "content"],
        content_characters=5,
        reasoning_characters=2,
    )
    second = AnsweredChoice(index=1, finish_reason="length", kinds=["content"], content_characters=2)
    assert ([first, second], ["stop", "length"], True, 2, 0.5, 10) == (
        seen.choice_outputs,
        seen.finish_reasons,
        seen.stream_complete,
        seen.requested_choices,
        seen.requested_temperature,
        seen.requested_max_tokens,
    )


def test_a_choice_that_never_came() -> None:
    """Two were asked for."""
    pieces = [event(chunk(delta(content="He", finish_reason="stop"))), event(DONE)]
    assert (True, False) == tuple(answered(*pieces, asked={"n": n}).stream_complete for n in (1, 2))


def test_choices_without_end_are_bounded() -> None:
    """No server sends so many; memory stays bounded, nothing is lost from the sums."""
    pieces = [event(chunk(delta(index=index, content="x"))) for index in range(1_000)]
    seen = answered(*pieces)
    assert (128, 1_000) == (seen.choices, seen.content_characters)


@pytest.mark.parametrize("stream", [True, False])
def test_a_compressed_answer_is_not_guessed_at(stream: bool) -> None:
    """A router may compress: size and status are known, the rest is said to be unread."""
    packed = gzip.compress(event(chunk(delta(content="Hello"))) + event(DONE))
    headers = [*(STREAM if stream else []), (b"Content-Encoding", b"gzip")]
    seen = answered(packed, headers=headers)
    assert ("encoded", 0, len(packed), None) == (
        seen.unreadable,
        seen.content_characters,
        seen.response_bytes,
        seen.stream_complete,
    )


def test_the_transfer_that_decode_was_sent_for() -> None:
    """From the request's own parameters."""
    parameters = {
        "do_remote_prefill": True,
        "remote_engine_id": "p",
        "remote_request_id": "chatcmpl-r-01234567",
    }
    body = msgspec.json.encode(chat())
    seen = answered(body, headers=[], asked={"kv_transfer_params": parameters})
    assert ("remote_prefill", "p", "chatcmpl-r-01234567", None) == (
        seen.kv_transfer_in,
        seen.remote_engine_id,
        seen.remote_request_id,
        seen.stream_complete,
    )


@pytest.mark.parametrize(
    "asked",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        {"kv_transfer_params": [1], "n": "x", "temperature": {}, "request_id": ["a"]},
        {"kv_transfer_params": {"remote_engine_id": {"a": 1}, "do_remote_prefill": 1}},
    ],
    ids=["no UTF-8", "deep", "wrong types", "wrong types inside"],
)
def test_garbage_of_a_client_is_no_error_of_ours(asked: Any) -> None:
    """The hook stays on, the answer is told."""
    for _ in range(20):
        seen = answered(msgspec.json.encode(chat()), headers=[], asked=asked)
        assert ("stop", 5) == (seen.finish_reasons[0], seen.content_characters)


@pytest.mark.parametrize(
    ("tracestate", "expected"),
    [(b"", None), (b"a=1,b=2", True), (b"no members", False), (b"\xff\xfe=1", False)],
)
def test_the_trace_state(tracestate: bytes, expected: bool | None) -> None:
    """Whether a collector downstream can read it."""
    headers = [(b"tracestate", tracestate)]
    assert expected is answered(b"{}", headers=[], request_headers=headers).tracestate_valid


@pytest.mark.parametrize(
    ("path", "header", "body", "expected"),
    [
        (CHAT, b"h", "b", "h"),
        (CHAT, b"", "b", "b"),
        ("/v1/responses", b"h", "b", "b"),
        ("/v1/responses", b"h", None, ""),
    ],
)
def test_the_id_a_client_gave(path: str, header: bytes, body: str | None, expected: str) -> None:
    """vLLM takes the header before the body; the responses API looks at the body only."""
    exchange = tap.Exchange({"type": "http", "path": path, "headers": [(b"x-request-id", header)]})
    exchange.received({"type": "http.request", "body": msgspec.json.encode({"request_id": body})})
    assert expected == exchange.client_id
