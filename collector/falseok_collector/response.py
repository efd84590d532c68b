"""Reads what a server sends to a client, as it passes by, and sums it up: lengths, order, reasons, usage.

Understands the bodies and server-sent events of `/v1/chat/completions`, `/v1/completions` and `/v1/responses`
(vLLM 0.26 to 0.33). Work a chunk is bounded; what cannot be read is counted and passed over, for the client gets it
all the same.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from falseok_collector.body_shapes import NULL, Body, Choice, Item, Message, ToolCall, Usage, decode_body
from falseok_collector.event_stream import EventStream
from falseok_collector.text_window import TextWindow

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A longer non-streamed body is not parsed: its status and size still are reported."""
MAX_CHOICES = 128
"""Choices told apart; further ones count as the last of these."""
MAX_TEXTS = 8
"""Choices whose text is kept for the text features."""
CONTENT, REASONING, TOOL_CALLS = "content", "reasoning", "tool_calls"

_MAX_COUNT = 2**53
_TOOL_DELTAS = frozenset(
    {
        "response.function_call_arguments.delta",
        "response.mcp_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.code_interpreter_call_code.delta",
    }
)
_DELTAS = {
    "response.output_text.delta": CONTENT,
    "response.refusal.delta": CONTENT,
    "response.reasoning_text.delta": REASONING,
    "response.reasoning_summary_text.delta": REASONING,
    **dict.fromkeys(_TOOL_DELTAS, TOOL_CALLS),
}
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ChoiceSummary:
    """What one choice consists of."""

    __slots__ = ("_calls", "characters", "content", "finish_reason", "kinds", "reasoning", "tool_calls")

    def __init__(self, *, keep_text: bool) -> None:
        self.characters = {CONTENT: 0, REASONING: 0, TOOL_CALLS: 0}
        self.kinds: list[str] = []
        """Kinds of output in the order of their first appearance."""
        self.tool_calls = 0
        self.finish_reason = ""
        self.content = TextWindow() if keep_text else None
        self.reasoning = TextWindow() if keep_text else None
        self._calls: set[int] = set()

    def add(self, kind: str, text: str) -> None:
        """Output of a kind was added; `text` is not empty."""
        characters = self.characters
        if not characters[kind]:
            self.kinds.append(kind)
        characters[kind] += len(text)
        window = self.content if kind == CONTENT else self.reasoning if kind == REASONING else None
        if window is not None:
            window.add(text)

    def count_call(self, index: int | None) -> None:
        """Count a tool call of a message; of a piece of one, which has an index, only the first."""
        if index is None:
            self.tool_calls += 1
        elif index not in self._calls and len(self._calls) < MAX_CHOICES:
            self._calls.add(index)
            self.tool_calls += 1


class ResponseSummary:
    """Accumulates one response. Feed it the body's bytes in order, then read its fields."""

    def __init__(self) -> None:
        self.stream = False
        self.choices: dict[int, ChoiceSummary] = {}
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.reasoning_tokens = 0
        self.error_type = ""
        self.error_in_stream = False
        self.kv_transfer_out = False
        self.model = ""
        self.response_bytes = 0
        self.chunks = 0
        """Events with data, `[DONE]` excluded."""
        self.unreadable = ""
        """Why the body says nothing: `encoded`, `too_long` or `not_json`."""
        self.unreadable_events = 0
        self.ended = False
        """Whether the stream said that it was over: `[DONE]`, or the last event of the responses API."""
        self._output_characters = 0
        self._kinds: dict[str, None] = {}
        self._events = EventStream()
        self._buffer = bytearray()

    @property
    def comments(self) -> int:
        """Comment lines of the stream: keep-alives."""
        return self._events.comments

    @property
    def stream_complete(self) -> bool:
        """Whether a stream came to its end with a reason for every choice."""
        reasons = [choice.finish_reason for choice in self.choices.values()]
        return self.stream and self.ended and bool(reasons) and all(reasons) and not self.error_in_stream

    def characters(self, kind: str) -> int:
        """Characters of a kind over all choices."""
        return sum(choice.characters[kind] for choice in self.choices.values())

    @property
    def kinds(self) -> list[str]:
        """Kinds of output in the order of their first appearance over all choices."""
        return list(self._kinds)

    def headers(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Learn from the response's headers how to read its body."""
        for name, value in headers:
            lowered = name.lower()
            if lowered == b"content-type":
                self.stream = value.lower().startswith(b"text/event-stream")
            elif lowered == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
                self.unreadable = "encoded"

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes of the body. True when they brought output to the client (streams only)."""
        self.response_bytes += len(chunk)
        if self.unreadable:
            return False
        if not self.stream:
            self._keep(chunk)
            return False
        before = self._output_characters
        for payload in self._events.feed(chunk):
            self._event(payload)
        return self._output_characters > before

    def finish(self) -> None:
        """The body is complete."""
        if self.stream:
            for payload in self._events.finish():
                self._event(payload)
            self.unreadable_events += self._events.events_too_long
        elif self._buffer and not self.unreadable:
            body = decode_body(bytes(self._buffer))
            if body is None:
                self.unreadable = "not_json"
            else:
                self._body(body)
        self._buffer.clear()

    def _keep(self, chunk: bytes) -> None:
        if len(self._buffer) + len(chunk) > MAX_BODY_BYTES:
            self.unreadable = "too_long"
            self._buffer.clear()
        else:
            self._buffer += chunk

    def _event(self, payload: bytes) -> None:
        if not payload:
            return
        if payload == b"[DONE]":
            self.ended = True
            return
        self.chunks += 1
        body = decode_body(payload)
        if body is None:
            self.unreadable_events += 1
        else:
            self._body(body)

    def _body(self, body: Body) -> None:
        for choice in body.choices or ():
            self._choice(choice)
        if body.usage is not None:
            self._usage(body.usage)
        if body.error is not None:
            self._error(body.error)
        elif body.object == "error":
            self._error({"type": body.type})
        if body.kv_transfer_params is not NULL:
            self.kv_transfer_out = self.kv_transfer_out or bytes(body.kv_transfer_params) != b"null"
        if body.model and not self.model:
            self.model = body.model
        if isinstance(body.type, str):
            self._response_event(body.type, body)
        if body.output is not None and not self.stream:
            self._output(body)

    def _choice_of(self, index: int) -> ChoiceSummary:
        found = self.choices.get(index)
        if found is None:
            if len(self.choices) >= MAX_CHOICES:
                return next(reversed(self.choices.values()))
            found = self.choices[index] = ChoiceSummary(keep_text=len(self.choices) < MAX_TEXTS)
        return found

    def _add(self, choice: ChoiceSummary, kind: str, text: str) -> None:
        if text:
            self._output_characters += len(text)
            if kind not in self._kinds:
                self._kinds[kind] = None
            choice.add(kind, text)

    def _choice(self, choice: Choice) -> None:
        summary = self._choice_of(choice.index)
        message = choice.delta or choice.message
        if message is not None:
            self._message(summary, message)
        if choice.text:
            self._add(summary, CONTENT, choice.text)
        if choice.finish_reason:
            summary.finish_reason = choice.finish_reason[:200]

    def _message(self, summary: ChoiceSummary, message: Message) -> None:
        # In this order a model speaks; within one chunk nothing else tells it.
        reasoning = message.reasoning or message.reasoning_content
        if reasoning:
            self._add(summary, REASONING, reasoning)
        if message.content:
            self._add(summary, CONTENT, message.content)
        if message.refusal:
            self._add(summary, CONTENT, message.refusal)
        for tool_call in message.tool_calls or ():
            summary.count_call(tool_call.index)
            for text in _call_texts(tool_call):
                self._add(summary, TOOL_CALLS, text)

    def _usage(self, usage: Usage) -> None:
        prompt = usage.prompt_tokens_details or usage.input_tokens_details
        completion = usage.completion_tokens_details or usage.output_tokens_details
        self.prompt_tokens = _count(usage.prompt_tokens or usage.input_tokens)
        self.completion_tokens = _count(usage.completion_tokens or usage.output_tokens)
        self.cached_tokens = _count(prompt.cached_tokens if prompt else 0)
        self.reasoning_tokens = _count(completion.reasoning_tokens if completion else 0)

    def _error(self, error: Any) -> None:
        self.error_in_stream = self.stream
        kind = (error.get("type") or error.get("code")) if isinstance(error, dict) else ""
        self.error_type = str(kind or "error")[:200]

    # The responses API: one choice, told in events or as a list of items --------------------------------------

    def _response_event(self, name: str, body: Body) -> None:
        kind = _DELTAS.get(name)
        if kind is not None:
            self._add(self._choice_of(0), kind, _text(body.delta))
        elif name == "response.output_item.added" and body.item is not None:
            if _is_call(body.item):
                choice = self._choice_of(0)
                choice.tool_calls += 1
                self._add(choice, TOOL_CALLS, body.item.name or "")
        elif name in _LAST_EVENTS:
            self.ended = True
            if body.response is not None:
                self._response_end(body.response)
        elif name == "error" and body.error is None:
            self._error({"type": body.code})
        elif body.response is not None and body.response.model and not self.model:
            self.model = body.response.model

    def _response_end(self, response: Body) -> None:
        if response.usage is not None:
            self._usage(response.usage)
        if response.error is not None:
            self._error(response.error)
        elif response.status == "failed":
            self._error({})
        self.model = self.model or response.model or ""
        self.kv_transfer_out = self.kv_transfer_out or bytes(response.kv_transfer_params) != b"null"
        details = response.incomplete_details
        reason = (details.reason if details is not None else "") or response.status or ""
        self._choice_of(0).finish_reason = reason[:200]

    def _output(self, body: Body) -> None:
        choice = self._choice_of(0)
        for item in body.output or ():
            self._item(choice, item)
        self._response_end(body)

    def _item(self, choice: ChoiceSummary, item: Item) -> None:
        if _is_call(item):
            choice.tool_calls += 1
            for text in (item.name, item.arguments, item.input, item.code):
                self._add(choice, TOOL_CALLS, text or "")
            return
        kind = REASONING if item.type == "reasoning" else CONTENT
        for part in (*(item.summary or ()), *(item.content or ())):
            self._add(choice, kind, part.text or part.refusal or "")


def _is_call(item: Item) -> bool:
    return item.type.endswith("_call")


def _call_texts(tool_call: ToolCall) -> Iterator[str]:
    if tool_call.function is not None:
        yield tool_call.function.name or ""
        yield tool_call.function.arguments or ""
    if isinstance(tool_call.custom, dict):
        yield _text(tool_call.custom.get("name"))
        yield _text(tool_call.custom.get("input"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: int | None) -> int:
    """A count that every reader of the event can hold."""
    return min(max(value or 0, 0), _MAX_COUNT)
