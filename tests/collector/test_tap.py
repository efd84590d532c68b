"""The tap around a real application: what passes, what is seen, and what it must never do."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Self

import httpx
import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.collector.bodies import DONE, STREAM, chat, chunk, delta, event
from tests.collector.hooks.reports import Reports
from tests.collector.waiting import until

from falseok_collector import tap
from falseok_collector.attributes import AnsweredChoice, ApiResponse
from falseok_collector.hooks.probe import Probe

CHAT = "/v1/chat/completions"
Endpoint = Callable[[Request], Awaitable[Response]]


class Tapped:
    """An application under the tap, with a probe as its guard, as in an API server."""

    def __init__(self, application: Any, done: Callable[[tap.Exchange], None] | None = None) -> None:
        self.application = application
        self.exchanges: list[tap.Exchange] = []
        self.probe = Probe("api.application", "test", report=Reports())
        self.done = done or self.exchanges.append

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Watch everything that is no lifespan."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        await tap.watch(self.application, scope, receive, send, guard=self.probe.observe, done=self.done)

    def seen(self) -> ApiResponse:
        """What was seen of the only exchange, without its times."""
        (exchange,) = self.exchanges
        attributes = exchange.to_attributes()
        assert 0 <= attributes.time_to_first_token_seconds <= attributes.duration_seconds < 60
        return msgspec.structs.replace(attributes, time_to_first_token_seconds=0.0, duration_seconds=0.0)


def starlette(endpoint: Endpoint, path: str = CHAT) -> Starlette:
    """A real application with one route."""
    return Starlette(routes=[Route(path, endpoint, methods=["POST"])])


def post(application: Any, **options: Any) -> httpx.Response:
    """One request through the application, as a client sees it."""

    async def client() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
            return await http.post(CHAT, json={"prompt": "x"}, **options)

    return asyncio.run(client())


async def answer(request: Request) -> Response:
    """A completion that is not streamed."""
    await request.body()
    return JSONResponse(chat())


def streaming(*pieces: bytes, failing: bool = False) -> Endpoint:
    """An endpoint that streams these pieces, and fails at the end where asked to."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        if failing:
            raise RuntimeError("engine died")

    async def endpoint(_: Request) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream")

    return endpoint


def test_a_response_that_is_not_streamed() -> None:
    """The client gets it as it is; status, reason, usage and size are seen."""
    tapped = Tapped(starlette(answer))
    response = post(tapped)
    assert (200, chat()) == (response.status_code, response.json())
    expected = ApiResponse(
        endpoint=CHAT,
        http_status=200,
        finish_reasons=["stop"],
        choices=1,
        content_characters=5,
        prompt_tokens=7,
        completion_tokens=2,
        response_bytes=len(response.content),
        model="tiny",
        choice_outputs=[
            AnsweredChoice(index=0, finish_reason="stop", kinds=["content"], content_characters=5)
        ],
        output_kinds=["content"],
        requested_thinking="default",
    )
    assert expected == tapped.seen()


def test_a_stream() -> None:
    """Piece by piece to the client; reasons in the order of the choices."""
    pieces = [STREAM[at : at + 100] for at in range(0, len(STREAM), 100)]
    tapped = Tapped(starlette(streaming(*pieces)))
    assert STREAM == post(tapped).content
    seen = tapped.seen()
    assert (True, 200, 2, ["tool_calls", "length"]) == (
        seen.stream,
        seen.http_status,
        seen.choices,
        seen.finish_reasons,
    )


def test_the_time_to_the_first_token_is_that_of_the_first_output() -> None:
    """The chunk with the role comes at once and says nothing about it."""
    first, second = event(chunk(delta(role="assistant", content=""))), event(chunk(delta(content="H")))

    async def body() -> AsyncIterator[bytes]:
        yield first
        await asyncio.sleep(0.02)
        yield second

    async def endpoint(_: Request) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream; charset=utf-8")

    tapped = Tapped(starlette(endpoint))
    post(tapped)
    attributes = tapped.exchanges[0].to_attributes()
    assert 0.02 <= attributes.time_to_first_token_seconds <= attributes.duration_seconds


def test_an_error_inside_a_stream() -> None:
    """A 200 that lies."""
    error = {"error": {"message": "internal", "type": "InternalServerError", "code": 500}}
    tapped = Tapped(starlette(streaming(event(chunk(delta(content="H"))), event(error), event(DONE))))
    assert 200 == post(tapped).status_code
    seen = tapped.seen()
    assert (200, True, "InternalServerError") == (seen.http_status, seen.error_in_stream, seen.error_type)


def test_a_body_that_is_no_json() -> None:
    """A page of some proxy: status and size."""

    async def endpoint(_: Request) -> Response:
        return Response("<html>", status_code=502, media_type="text/html")

    tapped = Tapped(starlette(endpoint))
    assert "<html>" == post(tapped).text
    expected = ApiResponse(endpoint=CHAT, http_status=502, response_bytes=6, unreadable="not_json")
    assert expected == tapped.seen()


@pytest.mark.parametrize("stream", [False, True], ids=["before the response", "inside a stream"])
def test_an_exception_of_the_application_passes_and_is_still_seen(stream: bool) -> None:
    """The very exception, unchanged; the response as far as it got."""
    error = RuntimeError("engine died")

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if stream:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
        raise error

    tapped = Tapped(application)
    with pytest.raises(RuntimeError, match="engine died") as caught:
        post(tapped)
    assert caught.value is error
    assert error.__context__ is None
    expected = ApiResponse(endpoint=CHAT)
    if stream:
        expected = ApiResponse(
            endpoint=CHAT, http_status=200, stream=True, stream_complete=False, chunks=1, response_bytes=10
        )
    assert expected == tapped.seen()


def test_an_exception_that_starlette_answers_is_a_500() -> None:
    """What the client got counts, not what was meant to be."""
    tapped = Tapped(starlette(streaming(failing=True)))
    with pytest.raises(RuntimeError, match="engine died"):
        post(tapped)
    assert 200 == tapped.seen().http_status


def scope(**changes: Any) -> dict[str, Any]:
    """The scope of a request to the chat endpoint."""
    return {"type": "http", "method": "POST", "path": CHAT, "headers": [], **changes}


def test_messages_pass_through_unchanged_in_order_and_at_once() -> None:
    """By identity both ways; each is handed on before the next is asked for."""
    incoming: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.request", "body": b"}", "more_body": False},
    ]
    outgoing: list[MutableMapping[str, Any]] = [
        {"type": "http.response.start", "status": 200, "headers": []},
        {"type": "http.response.body", "body": b"a", "more_body": True},
        {"type": "http.response.body", "body": memoryview(b"b"), "more_body": True},
        {"type": "http.response.trailers", "headers": []},
        {"type": "http.response.body"},
    ]
    order: list[Any] = []

    async def application(_: Any, receive: tap.Receive, send: tap.Send) -> None:
        order.extend([await receive(), await receive()])
        for message in outgoing:
            await send(message)
            order.append("sent")

    waiting = iter(incoming)

    async def receive() -> tap.Message:
        return next(waiting)

    async def send(message: tap.Message) -> None:
        order.append(message)

    asyncio.run(Tapped(application)(scope(), receive, send))
    expected: list[Any] = [*incoming]
    for message in outgoing:
        expected += [message, "sent"]
    assert all(one is other for one, other in zip(order, expected, strict=True))


async def nothing() -> tap.Message:
    """A client that says no more."""
    return {"type": "http.disconnect"}


async def deaf(_: tap.Message) -> None:
    """A client that listens to nothing."""


def exchanged(application: Any, receive: tap.Receive = nothing, send: tap.Send = deaf) -> ApiResponse:
    """What the tap sees of one bare ASGI call that ends well."""
    tapped = Tapped(application)
    asyncio.run(tapped(scope(), receive, send))
    return tapped.seen()


def test_a_client_that_leaves_before_the_end() -> None:
    """The application learns it, and so do we."""

    async def application(_: Any, receive: tap.Receive, send: tap.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()

    assert exchanged(application).client_disconnected


def test_a_client_that_leaves_after_the_end_got_everything() -> None:
    """Servers tell every application so when it goes on listening."""

    async def application(_: Any, receive: tap.Receive, send: tap.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}", "more_body": False})
        await receive()

    assert not exchanged(application).client_disconnected


def test_a_server_that_refuses_to_send_to_a_client_that_left() -> None:
    """ASGI 2.4: `send` raises; the error passes."""

    async def gone(_: tap.Message) -> None:
        raise BrokenPipeError

    async def application(_: Any, __: Any, send: tap.Send) -> None:
        with pytest.raises(BrokenPipeError):
            await send({"type": "http.response.start", "status": 200, "headers": []})

    assert (True, 0) == (
        exchanged(application, send=gone).client_disconnected,
        exchanged(application, send=gone).http_status,
    )


def test_a_cancelled_request_is_still_seen() -> None:
    """vLLM cancels the handler when the client leaves."""

    async def main() -> ApiResponse:
        started = asyncio.Event()

        async def application(_: Any, __: Any, send: tap.Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            started.set()
            await asyncio.Event().wait()

        tapped = Tapped(application)
        task = asyncio.create_task(tapped(scope(), nothing, deaf))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return tapped.seen()

    assert 200 == asyncio.run(main()).http_status


def test_a_coroutine_thrown_away_in_another_context_does_not_complain() -> None:
    """At the end of an event loop what is left is closed from outside."""

    async def application(_: Any, receive: tap.Receive, __: Any) -> None:
        await receive()

    async def never() -> tap.Message:
        await asyncio.Event().wait()
        raise AssertionError

    tapped = Tapped(application)

    async def begin() -> Any:
        coroutine = tapped(scope(), never, deaf)
        coroutine.send(None)
        return coroutine

    asyncio.run(begin()).close()
    assert ApiResponse(endpoint=CHAT) == tapped.seen()


@pytest.mark.parametrize("broken", ["sent", "received", "to_attributes", "__init__"])
def test_an_observer_that_raises_changes_nothing(
    broken: str, monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """The client gets the same bytes, whatever of ours fails."""

    def defective(*_: Any) -> None:
        raise RuntimeError("our trouble")

    monkeypatch.setattr(tap.Exchange, broken, defective)
    pieces = [STREAM[at : at + 50] for at in range(0, len(STREAM), 50)]

    def done(exchange: tap.Exchange) -> None:
        exchange.to_attributes()

    tapped = Tapped(starlette(streaming(*pieces)), done=done)
    response = post(tapped)
    assert (200, STREAM) == (response.status_code, response.content)
    assert tapped.probe.errors > 0
    assert 1 == len(swallowed_errors)


def test_header_ids_are_kept() -> None:
    """The id a router sent, in any spelling of the header's name, and the trace it belongs to."""
    tapped = Tapped(starlette(answer))
    post(tapped, headers={"X-Request-Id": "r-1", "traceparent": "00-a-b-01"})
    assert ("r-1", "00-a-b-01") == (tapped.exchanges[0].header_id, tapped.exchanges[0].traceparent)


@pytest.mark.parametrize("headers", [[], [(b"x-request-id", b"\xff\xfe")]], ids=["none", "not UTF-8"])
def test_odd_headers_do_no_harm(headers: list[tuple[bytes, bytes]]) -> None:
    """Bytes of any kind may come in."""
    exchange = tap.Exchange(scope(headers=headers))
    assert len(headers) * 2 == len(exchange.header_id)


def test_engine_requests_made_in_tasks_of_the_application_land_in_their_exchange() -> None:
    """Twenty requests at a time, each with three engine requests in tasks of its own: none goes astray."""

    async def engine_request(name: str) -> None:
        await asyncio.sleep(0)
        exchange = tap.CURRENT.get()
        assert exchange is not None
        exchange.engine_requests.append((name, name))

    async def endpoint(request: Request) -> Response:
        name = request.headers["x-request-id"]
        await asyncio.gather(*(engine_request(f"{name}/{number}") for number in range(3)))

        async def body() -> AsyncIterator[bytes]:
            yield event(chunk(delta(content=name)))
            await engine_request(f"{name}/late")

        return StreamingResponse(body(), media_type="text/event-stream")

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(tapped), base_url="http://e") as http:
            await asyncio.gather(
                *(http.post(CHAT, headers={"X-Request-Id": f"r{number}"}) for number in range(20))
            )
        assert tap.CURRENT.get() is None

    tapped = Tapped(starlette(endpoint))
    asyncio.run(main())
    found = {
        exchange.header_id: sorted(name for name, _ in exchange.engine_requests)
        for exchange in tapped.exchanges
    }
    assert {
        f"r{number}": [f"r{number}/0", f"r{number}/1", f"r{number}/2", f"r{number}/late"]
        for number in range(20)
    } == found


def test_after_the_call_nothing_is_being_served() -> None:
    """A server may serve one request after the other in the same task."""

    async def application(_: Any, __: Any, ___: Any) -> None:
        assert tap.CURRENT.get() is not None

    async def main() -> tap.Exchange | None:
        await Tapped(application)(scope(), nothing, deaf)
        return tap.CURRENT.get()

    assert asyncio.run(main()) is None


def test_work_after_the_response_belongs_to_the_same_exchange() -> None:
    """Background tasks run inside the call; the response was complete before."""

    async def later() -> None:
        await asyncio.sleep(0)

    async def endpoint(_: Request) -> Response:
        return JSONResponse(chat(), background=BackgroundTask(later))

    tapped = Tapped(starlette(endpoint))
    post(tapped)
    assert not tapped.seen().client_disconnected


class Server:
    """A real uvicorn in a thread."""

    def __init__(self, application: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}{CHAT}"
        self._server = uvicorn.Server(uvicorn.Config(application, log_config=None, lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


async def listen(request: Request) -> None:
    """Wait for the client to leave, as vLLM's handlers do."""
    await request.receive()
    await request.receive()


@pytest.mark.parametrize("endpoint", [answer, streaming(STREAM[:99], STREAM[99:])], ids=["whole", "stream"])
def test_under_a_real_server_a_client_that_stays_is_not_taken_for_gone(endpoint: Endpoint) -> None:
    """uvicorn says "disconnect" to whoever listens after the last byte."""

    async def listening(request: Request) -> Response:
        response = await endpoint(request)
        asyncio.get_running_loop().create_task(listen(request))
        return response

    tapped = Tapped(starlette(listening))
    with Server(tapped) as server:
        assert 200 == httpx.post(server.url, json={}).status_code
        until(lambda: tapped.exchanges)
    assert not tapped.seen().client_disconnected


def test_under_a_real_server_a_client_that_leaves_a_stream_is_seen() -> None:
    """It takes the first chunk and hangs up."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield event(chunk(delta(content="x")))
            await asyncio.sleep(0.001)

    async def endpoint(_: Request) -> Response:
        return StreamingResponse(endless(), media_type="text/event-stream")

    tapped = Tapped(starlette(endpoint))
    with Server(tapped) as server:
        with httpx.stream("POST", server.url, json={}) as response:
            next(response.iter_bytes())
        until(lambda: tapped.exchanges)
    seen = tapped.seen()
    assert (True, 200) == (seen.client_disconnected, seen.http_status)
    assert seen.content_characters >= 1
