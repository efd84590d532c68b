"""Watches what an ASGI server answers, from outside everything else the server does.

The messages pass through unchanged and are never held back; a failure of ours while looking at one is
swallowed and counted by the probe.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol

from falseok_collector.attributes import ApiResponse
from falseok_collector.response import ResponseSummary

TAPPED_PATHS = frozenset({"/v1/chat/completions", "/v1/completions"})

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
        self.engine_requests: list[tuple[str, str]] = []
        """(internal id, external id) of the engine requests made while serving this one."""
        self.engine_rank: int | None = None
        """Data-parallel rank of the engine core that the first of them went to; None without data parallelism."""
        self.kv_transfer_in = ""
        self._summary = ResponseSummary()
        self._started_ns = time.monotonic_ns()
        self._first_output_ns = 0
        self._status = 0
        self._complete = False
        self._disconnected = False

    def sent(self, message: Message) -> None:
        """Look at a message on its way to the client."""
        kind = message["type"]
        if kind == "http.response.start":
            self._status = int(message["status"])
            self._summary.stream = any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in message.get("headers", ())
            )
        elif kind == "http.response.body":
            if self._summary.feed(message.get("body", b"")) and not self._first_output_ns:
                self._first_output_ns = time.monotonic_ns()
            self._complete = not message.get("more_body", False)

    def received(self, message: Message) -> None:
        """Look at a message from the client: it may have left."""
        if message["type"] == "http.disconnect":
            self.lost()

    def lost(self) -> None:
        """The client is gone; that matters while there is something to send."""
        self._disconnected = self._disconnected or not self._complete

    def to_attributes(self) -> ApiResponse:
        """Sum up; call once, when the application is done with the request."""
        summary = self._summary
        summary.finish()
        ended_ns = time.monotonic_ns()
        return ApiResponse(
            endpoint=self.endpoint,
            http_status=self._status,
            stream=summary.stream,
            error_in_stream=summary.error_in_stream,
            error_type=summary.error_type,
            finish_reasons=[summary.finish_reasons[index] for index in sorted(summary.finish_reasons)],
            choices=len(summary.choices),
            content_characters=summary.content_characters,
            reasoning_characters=summary.reasoning_characters,
            tool_call_characters=summary.tool_call_characters,
            prompt_tokens=summary.prompt_tokens,
            completion_tokens=summary.completion_tokens,
            time_to_first_token_seconds=max(self._first_output_ns - self._started_ns, 0) / 1e9,
            duration_seconds=(ended_ns - self._started_ns) / 1e9,
            response_bytes=summary.response_bytes,
            client_disconnected=self._disconnected,
            engine_request_ids=[internal for internal, _ in self.engine_requests],
            kv_transfer_in=self.kv_transfer_in,
            kv_transfer_out=summary.kv_transfer_out,
            model=summary.model,
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
