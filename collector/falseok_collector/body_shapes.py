"""The parts of response bodies that are looked at: vLLM's OpenAI front end, 0.26 to 0.33, whole and streamed.

Shapes: `entrypoints/openai/{chat_completion,completion,responses}/protocol.py`; servers before 0.26 and other
engines call the reasoning `reasoning_content`. Anything else in a body is skipped while decoding.
"""

from typing import Any

import msgspec

NULL = msgspec.Raw(b"null")


class Function(msgspec.Struct):
    """Name and arguments of a tool call, or a piece of them."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    """A tool call of a chat message; in a stream `index` says to which call a piece belongs."""

    index: int | None = None
    function: Function | None = None
    custom: Any = None


class Message(msgspec.Struct):
    """A chat message, or what a chunk adds to it."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(msgspec.Struct):
    """One of the answers: `message` whole, `delta` streamed, `text` of `/v1/completions`."""

    index: int = 0
    message: Message | None = None
    delta: Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class TokenDetails(msgspec.Struct):
    """Details of the usage; which fields there are depends on the side they describe."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct):
    """Token counts: by the names of chat and completions, or by those of the responses API."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: TokenDetails | None = None
    output_tokens_details: TokenDetails | None = None


class Part(msgspec.Struct):
    """A part of an output item: text, a refusal, or reasoning."""

    text: str | None = None
    refusal: str | None = None


class Item(msgspec.Struct):
    """An item of the responses API's `output`: a message, reasoning, or a call of a tool."""

    type: str = ""
    content: list[Part] | None = None
    summary: list[Part] | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    code: str | None = None


class IncompleteDetails(msgspec.Struct):
    """Why a response of the responses API ended early."""

    reason: str | None = None


class Body(msgspec.Struct):
    """A whole body, a chunk, or an event of the responses API (there `type`, `delta`, `item` and `response`)."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    kv_transfer_params: msgspec.Raw = NULL  # `Raw | None` would refuse everything but null
    model: str | None = None
    object: str | None = None
    type: Any = None
    code: Any = None
    delta: Any = None
    item: Item | None = None
    response: "Body | None" = None
    output: list[Item] | None = None
    status: str | None = None
    incomplete_details: IncompleteDetails | None = None


_decoder = msgspec.json.Decoder(Body)


def decode_body(payload: bytes) -> Body | None:
    """The body, or None when it is not JSON or not of a shape known here. Never raises."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
