"""Watches what an ASGI server answers, from outside everything else the server does.

The messages pass through unchanged and are never held back; a failure of ours while looking at one is
swallowed and counted by the probe. What clients and servers send may be anything: it never counts as a failure.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol

from falseok_collector.attributes import AnsweredChoice, ApiResponse
from falseok_collector.described import EngineTokens
from falseok_collector.identity import bounded_id, tracestate_valid
from falseok_collector.request_body import RequestBody, Requested
from falseok_collector.response import CONTENT, REASONING, TOOL_CALLS, ChoiceSummary, ResponseSummary
from falseok_collector.text_features import ChoiceText

TAPPED_PATHS = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Guard(Protocol):
    """Runs an observer of ours so that nothing it raises gets out (`Probe.observe`)."""

    def __call__(self, observer: Callable[..., Any], *arguments: Any) -> Any:
        """The observer's result, or None when it raised."""
        ...


class Exchange:
    """One request and its response, as they pass by."""

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self.endpoint = str(scope.get("path", ""))
        headers = {name.lower(): value for name, value in scope.get("headers", ())}
        self.header_id = headers.get(b"x-request-id", b"").decode("latin-1")
        self.traceparent = headers.get(b"traceparent", b"").decode("latin-1")
        self.tracestate = headers.get(b"tracestate", b"").decode("latin-1")
        self.engine_requests: list[tuple[str, str]] = []
        """(internal id, external id) of the engine requests made while serving this one."""
        self.engine_rank: int | None = None
        """Data-parallel rank of the engine core that the first of them went to; None without data parallelism."""
        self.tokens: list[EngineTokens] = []
        """What the engine told of the tokens of the finished ones."""
        self.kv_transfer_in = ""
        """The leg that the engine requests themselves told."""
        self.summary = ResponseSummary()
        self.request = RequestBody(encoded=headers.get(b"content-encoding", b"").strip().lower())
        self._requested: Requested | None = None
        self._started_ns = time.monotonic_ns()
        self._first_output_ns = 0
        self._status = 0
        self._complete = False
        self._disconnected = False

    @property
    def requested(self) -> Requested:
        """What the client asked for; read once, when the whole body has passed."""
        if self._requested is None:
            self._requested = self.request.requested()
        return self._requested

    @property
    def client_id(self) -> str:
        """The id the client or router gave: the header, else the body's (the responses API looks only at the body)."""
        if self.endpoint == "/v1/responses":
            return self.requested.request_id
        return self.header_id or self.requested.request_id

    def sent(self, message: Message) -> None:
        """Look at a message on its way to the client."""
        kind = message["type"]
        if kind == "http.response.start":
            self._status = int(message["status"])
            self.summary.headers(message.get("headers", ()))
        elif kind == "http.response.body":
            if self.summary.feed(message.get("body", b"")) and not self._first_output_ns:
                self._first_output_ns = time.monotonic_ns()
            self._complete = not message.get("more_body", False)

    def received(self, message: Message) -> None:
        """Look at a message from the client: a piece of its request, or that it has left."""
        kind = message["type"]
        if kind == "http.request":
            self.request.feed(message.get("body", b""))
        elif kind == "http.disconnect":
            self.lost()

    def lost(self) -> None:
        """The client is gone; that matters while there is something to send."""
        self._disconnected = self._disconnected or not self._complete

    def to_attributes(self) -> ApiResponse:
        """Sum up; call once, when the application is done with the request."""
        summary, requested = self.summary, self.requested
        summary.finish()
        ended_ns = time.monotonic_ns()
        choices = [answered(index, summary.choices[index]) for index in sorted(summary.choices)]
        return ApiResponse(
            endpoint=self.endpoint,
            http_status=self._status,
            stream=summary.stream,
            error_in_stream=summary.error_in_stream,
            error_type=summary.error_type,
            finish_reasons=[choice.finish_reason for choice in choices if choice.finish_reason],
            choices=len(choices),
            content_characters=summary.characters(CONTENT),
            reasoning_characters=summary.characters(REASONING),
            tool_call_characters=summary.characters(TOOL_CALLS),
            prompt_tokens=summary.prompt_tokens,
            completion_tokens=summary.completion_tokens,
            time_to_first_token_seconds=max(self._first_output_ns - self._started_ns, 0) / 1e9,
            duration_seconds=(ended_ns - self._started_ns) / 1e9,
            response_bytes=summary.response_bytes,
            client_disconnected=self._disconnected,
            engine_request_ids=[bounded_id(internal) for internal, _ in self.engine_requests],
            kv_transfer_in=self.kv_transfer_in or requested.kv_transfer.leg,
            kv_transfer_out=summary.kv_transfer_out,
            model=summary.model[:1_000],
            choice_outputs=choices,
            output_kinds=summary.kinds,
            tool_calls=sum(choice.tool_calls for choice in choices),
            reasoning_tokens=summary.reasoning_tokens,
            cached_tokens=summary.cached_tokens,
            stream_complete=self._stream_complete(),
            chunks=summary.chunks,
            keep_alives=summary.comments,
            unreadable=summary.unreadable,
            unreadable_events=summary.unreadable_events,
            request_unreadable=requested.unreadable,
            requested_thinking=requested.thinking,
            requested_choices=requested.choices,
            requested_temperature=requested.temperature,
            requested_max_tokens=requested.max_tokens,
            remote_engine_id=bounded_id(requested.kv_transfer.remote_engine_id),
            remote_request_id=bounded_id(requested.kv_transfer.remote_request_id),
            tracestate_valid=tracestate_valid(self.tracestate),
        )

    def texts(self) -> list[ChoiceText]:
        """What is kept of the choices' text, in order of the choices."""
        choices = [self.summary.choices[index] for index in sorted(self.summary.choices)]
        return [
            ChoiceText(choice.content, choice.reasoning, choice.tool_calls, choice.finish_reason)
            for choice in choices
            if choice.content is not None and choice.reasoning is not None
        ]

    def _stream_complete(self) -> bool | None:
        summary = self.summary
        if not summary.stream or summary.unreadable:
            return None
        return summary.stream_complete and self._complete and len(summary.choices) >= self.requested.choices


def answered(index: int, choice: ChoiceSummary) -> AnsweredChoice:
    """One choice in numbers."""
    return AnsweredChoice(
        index=index,
        finish_reason=choice.finish_reason,
        kinds=choice.kinds,
        content_characters=choice.characters[CONTENT],
        reasoning_characters=choice.characters[REASONING],
        tool_call_characters=choice.characters[TOOL_CALLS],
        tool_calls=choice.tool_calls,
    )


CURRENT: ContextVar[Exchange | None] = ContextVar("falseok_exchange", default=None)
"""The exchange being served by this task; engine requests made meanwhile belong to it."""


async def watch(  # noqa: PLR0913 - an ASGI call and what to do with it
    application: Callable[..., Awaitable[None]],
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
    *,
    guard: Guard,
    done: Callable[[Exchange], None],
) -> None:
    """Serve one request through `application` and hand the finished exchange to `done`.

    Raises only what `application` raises.
    """
    exchange = guard(Exchange, scope)
    if exchange is None:
        await application(scope, receive, send)
        return

    async def watched_receive() -> Message:
        message = await receive()
        guard(exchange.received, message)
        return message

    async def watched_send(message: Message) -> None:
        try:
            await send(message)
        except OSError:  # how an ASGI server says that the client is gone (spec 2.4)
            guard(exchange.lost)
            raise
        guard(exchange.sent, message)

    token = CURRENT.set(exchange)
    try:
        await application(scope, watched_receive, watched_send)
    finally:
        with contextlib.suppress(ValueError):  # a coroutine thrown away is closed in another context
            CURRENT.reset(token)
        guard(done, exchange)
