"""What a client asked for, out of anything it may send."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.request_body import MAX_REQUEST_BYTES, RequestBody, Requested, RequestedTransfer


def body(content: Any, encoded: bytes = b"") -> RequestBody:
    """A body that arrived in two pieces."""
    raw = content if isinstance(content, bytes) else msgspec.json.encode(content)
    passing = RequestBody(encoded=encoded)
    passing.feed(raw[: len(raw) // 2])
    passing.feed(raw[len(raw) // 2 :])
    return passing


def test_everything_that_is_read() -> None:
    """Of a decode leg, as a router sends it."""
    parameters = {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_engine_id": "engine-p",
        "remote_request_id": "chatcmpl-r-0123abcd",
        "remote_block_ids": [[1, 2]],
    }
    asked = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "x"}],
        "n": 2,
        "temperature": 0,
        "max_tokens": 20,
        "max_completion_tokens": 30,
        "request_id": "r-1",
        "kv_transfer_params": parameters,
    }
    expected = Requested(
        request_id="r-1",
        thinking="default",
        choices=2,
        temperature=0.0,
        max_tokens=30,
        kv_transfer=RequestedTransfer(
            leg="remote_prefill", remote_engine_id="engine-p", remote_request_id="chatcmpl-r-0123abcd"
        ),
        has_kv_transfer=True,
    )
    assert expected == body(asked).requested()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, "default"),
        ({"chat_template_kwargs": {"thinking": True}}, "on"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "off"),
        ({"chat_template_kwargs": {"thinking": "yes"}}, "default"),
        ({"enable_thinking": True}, "on"),
        ({"thinking": {"type": "disabled"}}, "off"),
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning_effort": "none"}, "off"),
        ({"reasoning_effort": None}, "default"),
        ({"reasoning": {"effort": "low"}}, "low"),
        ({"reasoning": "low"}, "default"),
        ({"chat_template_kwargs": {"reasoning_effort": "max"}}, "max"),
        ({"chat_template_kwargs": [1], "reasoning_effort": {"a": 1}}, "default"),
    ],
)
def test_the_thinking_mode(asked: dict[str, Any], expected: str) -> None:
    """By the names that models and endpoints know."""
    assert expected == body(asked).requested().thinking


@pytest.mark.parametrize(
    "asked",
    [
        {"n": "two", "temperature": [], "max_tokens": {}, "request_id": 7, "kv_transfer_params": "x"},
        {"n": True, "temperature": 1e300, "max_tokens": 2**70, "kv_transfer_params": [1, 2]},
        {"n": None, "kv_transfer_params": {"remote_engine_id": ["e"], "remote_request_id": 5}},
        {"messages": 5, "prompt": {"a": 1}, "input": None},
    ],
)
def test_fields_of_wrong_types_count_as_not_given(asked: dict[str, Any]) -> None:
    """Each on its own: none spoils the others."""
    requested = body({**asked, "reasoning_effort": "low"}).requested()
    assert ("low", 0, 0, "", RequestedTransfer()) == (
        requested.thinking,
        requested.choices,
        requested.max_tokens,
        requested.request_id,
        requested.kv_transfer,
    )


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'{"n": ',
        b'{"a":' + b"[" * 100_000,
        b'{"kv_transfer_params":' + b"[" * 100_000,
    ],
    ids=lambda content: repr(content[:20]),
)
def test_what_is_no_json_object(content: bytes) -> None:
    """It is said so; nothing is raised."""
    assert ("not_json", "") == (body(content).requested().unreadable, body(content).prompt())


def test_a_deep_value_counts_as_not_given() -> None:
    """Client data may be nested as deep as it likes."""
    deep = b'{"n": 2, "kv_transfer_params": ' + b"[" * 900 + b"]" * 900 + b"}"
    requested = body(deep).requested()
    assert (2, RequestedTransfer()) == (requested.choices, requested.kv_transfer)


@given(st.lists(st.binary(max_size=40)))
def test_no_bytes_make_it_fail(pieces: list[bytes]) -> None:
    """They come from outside."""
    passing = RequestBody()
    for piece in pieces:
        passing.feed(piece)
    assert passing.requested().unreadable in {"", "not_json"}
    passing.prompt()


def test_a_long_body_is_not_kept() -> None:
    """Images and documents: memory is bounded, what fits in afterwards does not pass for a body."""
    passing = RequestBody()
    for _ in range(20):
        passing.feed(b" " * 65_536)
        assert len(passing._buffer) <= MAX_REQUEST_BYTES
    passing.feed(b'{"n": 2}')
    assert (Requested(unreadable="too_long"), "") == (passing.requested(), passing.prompt())


def test_a_compressed_body_is_not_guessed_at() -> None:
    """A router may have compressed it."""
    assert Requested(unreadable="encoded") == body(b"\x1f\x8b\x08", encoded=b"gzip").requested()


def test_the_prompts_text() -> None:
    """Messages in any form, lists of prompts, items; no token ids, no images."""
    parts = [{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
    messages = [{"role": "system", "content": "one"}, {"role": "user", "content": parts}]
    assert "one\ntwo" == body({"messages": messages}).prompt()
    assert "a\nb" == body({"prompt": ["a", "b"]}).prompt()
    assert "" == body({"prompt": [[1, 2], [3]]}).prompt()
    assert (
        "hi"
        == body({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]}).prompt()
    )
