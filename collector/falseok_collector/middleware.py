"""The response tap as plain ASGI middleware, for a router or any other server in front of engines.

    app = FalseOKMiddleware(app)                                    any ASGI application
    app.add_middleware(FalseOKMiddleware)                           Starlette, FastAPI
    vllm serve … --middleware falseok_collector.middleware.FalseOKMiddleware

Settings are the collector's (`FALSEOK_*`). Events start when the application starts up, or with the first request.
In a process of vLLM where the plug-in runs, its emitter is used, and what the plug-in's own hook sees already is not
told twice. Nothing of ours reaches the application: what fails here is swallowed and reported once, and when it keeps
failing, or the start fails, requests are passed straight on.
"""

import logging
import os
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from falseok_collector import plugin, tap
from falseok_collector.described import Describer, TextOptions
from falseok_collector.emitter import Emitter
from falseok_collector.hooks.probe import Probe
from falseok_collector.settings import read_settings

logger = logging.getLogger("falseok")

ROUTER = "router"
Application = Callable[[MutableMapping[str, Any], tap.Receive, tap.Send], Awaitable[None]]


class FalseOKMiddleware:
    """Watches the endpoints that generate text and emits `api.response` for each of their answers."""

    def __init__(self, app: Application, emitter: Emitter | None = None) -> None:
        """Wrap `app`. `emitter` is for processes that have one of their own; else one is made when it is needed."""
        self._app = app
        self._given = emitter
        # One for each thing that may fail on its own: a success of one must not excuse the failures of another.
        self._starting, self._watching, self._telling = map(_probe, ("start", "watch", "tell"))

    async def __call__(self, scope: MutableMapping[str, Any], receive: tap.Receive, send: tap.Send) -> None:
        """Serve. Raises only what the application raises."""
        kind = scope["type"]
        if kind == "lifespan":
            self._starting.observe(self._voice)
        off = self._watching.state != "active" or self._telling.state != "active"
        if (
            off
            or kind != "http"
            or scope.get("path") not in tap.TAPPED_PATHS
            or tap.CURRENT.get() is not None
        ):
            await self._app(scope, receive, send)
            return
        voice = self._starting.observe(self._voice)
        if voice is None:
            await self._app(scope, receive, send)
            return

        def tell(exchange: tap.Exchange) -> None:
            self._telling.observe(voice.tell, exchange)

        await tap.watch(self._app, scope, receive, send, guard=self._watching.observe, done=tell)

    def _voice(self) -> "Voice | None":
        return voice_of_process(self._given)


class Voice:
    """How a process tells answers that the middleware saw."""

    def __init__(self, emitter: Emitter, observer: str) -> None:
        settings = emitter.settings
        self._emitter = emitter
        self._observer = observer
        self._describer = Describer(TextOptions.of(settings))

    def tell(self, exchange: tap.Exchange) -> None:
        """Emit what was seen. In a router there is no internal id: the client's is all there is."""
        internal = exchange.engine_requests[0][0] if exchange.engine_requests else ""
        attributes = msgspec.structs.replace(exchange.to_attributes(), observer=self._observer)
        self._emitter.emit(
            self._describer.describe(attributes, exchange.texts(), exchange.request, exchange.tokens),
            request_id=internal,
            external_id=exchange.client_id or exchange.header_id,
            traceparent=exchange.traceparent,
        )


_lock = threading.Lock()
_own: dict[tuple[int, int], Voice | None] = {}
"""By process id, for after a fork the child makes its own, and by the emitter that was given."""


def voice_of_process(given: Emitter | None = None) -> Voice | None:
    """The one voice of this process, started; None where the collector is off, or could not be started.

    Raises what the first start raises; later calls do not try again.
    """
    key = (os.getpid(), id(given))
    with _lock:
        if key not in _own:
            _own[key] = None
            _own[key] = _new_voice(given)
        return _own[key]


def _new_voice(given: Emitter | None) -> Voice | None:
    if given is not None:
        given.process = given.process or ROUTER
        given.start()
        return Voice(given, ROUTER)
    installed = plugin.emitter()
    if installed is not None:
        return Voice(installed, "")  # its sender is started by the plug-in's own hooks
    settings = read_settings()
    for problem in settings.problems:
        logger.warning("falseok: %s", problem)
    if not settings.enabled:
        return None
    emitter = Emitter(settings)
    emitter.process = ROUTER
    emitter.start()
    return Voice(emitter, ROUTER)


def _probe(part: str) -> Probe:
    probe = Probe(f"middleware.{part}", "asgi", report=_report)
    probe.begin()
    return probe


def _report(hook: str, target: str, reason: str, detail: str) -> None:
    logger.warning("falseok: %s on %s: %s, %s", hook, target, reason, detail)
