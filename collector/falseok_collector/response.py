"""Reads what a server sends to a client, as it passes by, and sums it up: lengths, reasons, usage; never text.

Understands the bodies and server-sent events of `/v1/chat/completions` and `/v1/completions` (vLLM 0.26 to
0.33). Work a chunk is bounded; what cannot be read is skipped, for the client gets it all the same.
"""

from typing import Any

import msgspec

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A longer non-streamed body is not parsed: its status and size still are reported."""
_MAX_LINE_BYTES = 1024 * 1024
_NULL = msgspec.Raw(b"null")


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Message | None = None
    delta: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    kv_transfer_params: msgspec.Raw = _NULL  # `Raw | None` would refuse everything but null
    model: str | None = None


_decoder = msgspec.json.Decoder(_Body)


class ResponseSummary:
    """Accumulates one response. Feed it the body's bytes in order, then read its fields."""

    def __init__(self) -> None:
        self.stream = False
        self.content_characters = 0
        self.reasoning_characters = 0
        self.tool_call_characters = 0
        self.finish_reasons: dict[int, str] = {}
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.error_type = ""
        self.error_in_stream = False
        self.kv_transfer_out = False
        self.model = ""
        self.response_bytes = 0
        self.choices: set[int] = set()
        self._buffer = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes of the body. True when they brought output tokens to the client."""
        self.response_bytes += len(chunk)
        if not self.stream:
            self._keep(chunk)
            return False
        before = self.content_characters + self.reasoning_characters + self.tool_call_characters
        self._feed_events(chunk)
        return self.content_characters + self.reasoning_characters + self.tool_call_characters > before

    def finish(self) -> None:
        """The body is complete."""
        if self.stream:
            self._line(bytes(self._buffer))
        elif self._buffer and not self._skipping:
            self._body(bytes(self._buffer))
        self._buffer.clear()

    def _keep(self, chunk: bytes) -> None:
        if self._skipping or len(self._buffer) + len(chunk) > MAX_BODY_BYTES:
            self._skipping = True
            self._buffer.clear()
        else:
            self._buffer += chunk

    def _feed_events(self, chunk: bytes) -> None:
        *complete, rest = (bytes(self._buffer) + chunk).split(b"\n")
        self._buffer.clear()
        for line in complete:
            if self._skipping:
                self._skipping = False  # the end of a line that was too long
            else:
                self._line(line)
        if len(rest) > _MAX_LINE_BYTES:
            self._skipping = True
        elif not self._skipping:
            self._buffer += rest

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            payload = line[5:].strip()
            if payload and payload != b"[DONE]":
                self._body(payload)

    def _body(self, payload: bytes) -> None:
        try:
            body = _decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return
        for choice in body.choices or ():
            self._choice(choice)
        if body.usage is not None:
            self.prompt_tokens = body.usage.prompt_tokens
            self.completion_tokens = body.usage.completion_tokens or 0
        if body.error is not None:
            self.error_in_stream = self.stream
            kind = body.error.get("type") if isinstance(body.error, dict) else ""
            self.error_type = str(kind or "error")[:200]
        self.kv_transfer_out = self.kv_transfer_out or bytes(body.kv_transfer_params) != b"null"
        self.model = self.model or body.model or ""

    def _choice(self, choice: _Choice) -> None:
        self.choices.add(choice.index)
        message = choice.delta or choice.message
        if message is not None:
            self.content_characters += len(message.content or "")
            self.reasoning_characters += len(message.reasoning or "")
            for tool_call in message.tool_calls or ():
                if tool_call.function is not None:
                    self.tool_call_characters += len(tool_call.function.name or "")
                    self.tool_call_characters += len(tool_call.function.arguments or "")
        self.content_characters += len(choice.text or "")
        if choice.finish_reason:
            self.finish_reasons[choice.index] = choice.finish_reason
