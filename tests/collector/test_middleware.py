"""The tap as plain middleware under a real server: what it tells, and that it never tells twice."""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.collector.bodies import STREAM, chat
from tests.collector.hooks.reports import Reports

from falseok_collector import middleware, tap
from falseok_collector.attributes import ApiResponse
from falseok_collector.deferred import Deferred
from falseok_collector.emitter import Emitter
from falseok_collector.events import decode
from falseok_collector.hashing import KeyedHash
from falseok_collector.hooks.probe import ERRORS_IN_A_ROW, Probe
from falseok_collector.middleware import FalseOKMiddleware
from falseok_collector.ring import Record
from falseok_collector.settings import Settings

CHAT = "/v1/chat/completions"


async def answer(request: Request) -> Response:
    """A stream where asked for one."""
    asked = await request.json()
    if not asked.get("stream"):
        return JSONResponse(chat())

    async def body() -> AsyncIterator[bytes]:
        for at in range(0, len(STREAM), 100):
            yield STREAM[at : at + 100]

    return StreamingResponse(body(), media_type="text/event-stream")


async def health(_: Request) -> Response:
    """Of no interest."""
    return PlainTextResponse("ok")


ROUTES = [Route(CHAT, answer, methods=["POST"]), Route("/health", health)]


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The base URL of the running application."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


class Silent(Emitter):
    """An emitter whose ring is read by the test."""

    def start(self) -> None:
        """No thread."""

    def told(self) -> list[tuple[Record, ApiResponse]]:
        """Records with their attributes."""
        found = []
        for record in self.ring.take(100):
            attributes = record.attributes
            finished = attributes.finish(KeyedHash("")) if isinstance(attributes, Deferred) else attributes
            assert isinstance(finished, ApiResponse)
            found.append((record, finished))
        return found


@pytest.fixture
def emitter() -> Silent:
    """Of a router."""
    return Silent(Settings(sinks=("memory",)))


@pytest.mark.parametrize("added", [True, False], ids=["as Starlette's middleware", "around the application"])
def test_answers_are_told_under_a_real_server(emitter: Silent, added: bool) -> None:
    """The client gets the same bytes; a router's event names no engine."""
    if added:
        app: Any = Starlette(routes=ROUTES, middleware=[Middleware(FalseOKMiddleware, emitter=emitter)])
    else:
        app = FalseOKMiddleware(Starlette(routes=ROUTES), emitter)
    with served(app) as url:
        headers = {"X-Request-Id": "r-1"}
        stream = httpx.post(url + CHAT, json={"stream": True}, headers=headers, trust_env=False)
        whole = httpx.post(url + CHAT, json={"request_id": "r-2"}, trust_env=False)
        assert "ok" == httpx.get(url + "/health", trust_env=False).text
    assert (STREAM, chat()) == (stream.content, whole.json())
    (first, streamed), (second, other) = emitter.told()
    assert [("r-1", "", ""), ("r-2", "", "")] == [
        (record.external_id, record.request_id, record.engine_id) for record in (first, second)
    ]
    assert ("router", "router", True, True, 200) == (
        emitter.process,
        streamed.observer,
        streamed.stream_complete,
        bool(streamed.features),
        streamed.http_status,
    )
    assert (["stop"], len(whole.content)) == (other.finish_reasons, other.response_bytes)


def test_what_the_hook_sees_is_not_told_twice(emitter: Silent) -> None:
    """vLLM's `--middleware` beside the plug-in."""
    exchanges: list[tap.Exchange] = []
    probe = Probe("api.application", "test", report=Reports())
    app = FalseOKMiddleware(Starlette(routes=ROUTES), emitter)

    async def hooked(scope: Any, receive: Any, send: Any) -> None:
        await tap.watch(app, scope, receive, send, guard=probe.observe, done=exchanges.append)

    async def client() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(hooked), base_url="http://e") as http:
            return await http.post(CHAT, json={})

    assert chat() == asyncio.run(client()).json()
    assert (1, []) == (len(exchanges), emitter.told())


def test_beside_the_plug_in_its_emitter_is_used(monkeypatch: pytest.MonkeyPatch, emitter: Silent) -> None:
    """Where its own hook is switched off, the answer still names the engine."""
    emitter.engine_id, emitter.process = "engine-1", "api_server"
    monkeypatch.setattr("falseok_collector.plugin.emitter", lambda: emitter)
    monkeypatch.setattr(middleware, "_own", {})
    ask(FalseOKMiddleware(Starlette(routes=ROUTES)))
    ((_, told),) = emitter.told()
    assert ("", "api_server") == (told.observer, emitter.process)


def test_when_observing_keeps_failing_requests_are_passed_straight_on(
    emitter: Silent, monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """As every hook, it switches itself off; clients notice nothing, and the log says so once."""

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("our trouble")

    monkeypatch.setattr(emitter, "emit", fail)
    app = FalseOKMiddleware(Starlette(routes=ROUTES), emitter)
    answers = [ask(app).json() for _ in range(ERRORS_IN_A_ROW + 5)]
    assert [chat()] * (ERRORS_IN_A_ROW + 5) == answers
    monkeypatch.setattr(tap, "watch", fail)
    assert chat() == ask(app).json()
    assert [False, False, True] == ["switched off after 10 errors" in told for told in swallowed_errors]


def test_a_start_that_fails_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """No new emitter with every request."""
    starts: list[Settings] = []

    def fail(settings: Settings) -> Emitter:
        starts.append(settings)
        raise OSError("can't start new thread")

    monkeypatch.setattr(middleware, "_own", {})
    monkeypatch.setattr(middleware, "Emitter", fail)
    app = FalseOKMiddleware(Starlette(routes=ROUTES))
    assert [chat()] * 3 == [ask(app).json() for _ in range(3)]
    assert 1 == len(starts)
    assert 2 == len(swallowed_errors)


def ask(app: Any) -> httpx.Response:
    """One request."""

    async def client() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://e") as http:
            return await http.post(CHAT, json={})

    return asyncio.run(client())


def test_a_process_of_its_own_writes_to_the_spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings come from the environment; one emitter a process, however many middlewares."""
    monkeypatch.setattr(middleware, "_own", {})
    monkeypatch.setenv("FALSEOK_SPOOL_DIR", str(tmp_path))
    for _ in range(2):
        ask(FalseOKMiddleware(Starlette(routes=ROUTES)))
    ((_, voice),) = middleware._own.items()
    assert voice is not None
    voice._emitter.close()
    events = [decode(line) for path in tmp_path.rglob("*") if path.is_file() for line in lines_of(path)]
    assert 2 == sum(one.name == "api.response" for one in events)
    assert {os.getpid()} == {one.pid for one in events}


def lines_of(path: Path) -> list[bytes]:
    """Events of a segment."""
    return [line for line in path.read_bytes().splitlines() if line.startswith(b"{")]


def test_a_collector_that_is_off_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`FALSEOK_ENABLED=0`: the application is served as it is."""
    monkeypatch.setattr(middleware, "_own", {})
    monkeypatch.setenv("FALSEOK_ENABLED", "0")
    monkeypatch.setenv("FALSEOK_SPOOL_DIR", str(tmp_path))
    assert chat() == ask(FalseOKMiddleware(Starlette(routes=ROUTES))).json()
    assert ([None], []) == (list(middleware._own.values()), list(tmp_path.iterdir()))


def test_a_collector_that_cannot_start_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """The answer passes."""

    def defective() -> None:
        raise RuntimeError("our trouble")

    monkeypatch.setattr(middleware, "_own", {})
    monkeypatch.setattr(middleware, "read_settings", defective)
    assert chat() == ask(FalseOKMiddleware(Starlette(routes=ROUTES))).json()
    assert swallowed_errors


def test_a_router_and_an_engine_tell_the_same(emitter: Silent) -> None:
    """Field by field, whatever the pieces are in which the bytes came."""
    engine = Silent(Settings(sinks=("memory",)))
    inner = FalseOKMiddleware(Starlette(routes=ROUTES), engine)
    with served(inner) as url:

        async def forward(request: Request) -> Response:
            async with httpx.AsyncClient(trust_env=False) as http:
                reply = await http.post(url + CHAT, content=await request.body())

            async def body() -> AsyncIterator[bytes]:
                for at in range(0, len(reply.content), 7):
                    yield reply.content[at : at + 7]

            return StreamingResponse(body(), media_type=reply.headers["content-type"])

        router = FalseOKMiddleware(Starlette(routes=[Route(CHAT, forward, methods=["POST"])]), emitter)
        asked = {"stream": True, "n": 2, "temperature": 0.5}
        with served(router) as front:
            assert STREAM == httpx.post(front + CHAT, json=asked, trust_env=False).content
    ((_, seen),), ((_, told),) = engine.told(), emitter.told()
    same = {"time_to_first_token_seconds": 0.0, "duration_seconds": 0.0}
    assert msgspec.structs.replace(seen, **same) == msgspec.structs.replace(told, **same)
