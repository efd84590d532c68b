"""The hop between a client and a prefill/decode pair, as a router in front of real engines does it.

One request becomes two that share an `X-Request-Id`: prefill computes the KV cache and says where it lies, decode
gets the same request with that. Decode's answer goes to the client byte for byte; a client that leaves ends what is
asked for it. It knows nothing of FalseOK.

Push mode (`NixlPushConnector`) needs nothing else. Decode, not the router, tells prefill which blocks to write into:
it reads prefill's engine id, host, port and sizes out of the same `kv_transfer_params` and announces its blocks over
NIXL; prefill finds the finished request by its id without the random suffix, which is why both requests must share
one `X-Request-Id`. `remote_block_ids` is ignored. A router that knows prefill's engine id beforehand could ask both
at once, and the write would begin as soon as prefill ends; asked one after the other, as here, it begins when
decode's announcement arrives.

    python -m falseok_lab.router --port PORT --prefill URL --decode URL [--host HOST] [--middleware NAME]
"""

import argparse
import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from falseok_lab.ports import LOOPBACK

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
REQUEST_ID = "x-request-id"
PASSED_ON = ("traceparent", "tracestate", "baggage", "authorization")
"""Headers that both engines get as the client sent them, beside the request id."""

CLIENT_CLOSED_REQUEST = 499
"""What nginx logs for a client that left; nobody receives it."""

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names of the limit on an answer's tokens. The first is always set on the older endpoints; the second wins over it
where a client gives it; the third is that of the responses API."""

FOR_DECODE_ONLY = {"stream_options", "min_tokens"}
ANSWERED_BY = "x-falseok-answered-by"
"""Response header: which of the two engines, or the router itself, the answer comes from."""

OFFER: dict[str, Any] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""Asks prefill to keep the KV cache for another engine."""


def prefill_request(body: dict[str, Any], path: str = PATHS[0]) -> dict[str, Any]:
    """What prefill is asked: the same request for one token, not streamed, keeping its KV cache.

    `n` stays: vLLM then computes and keeps the prompt n times and names one of them in its answer.
    """
    asked = {key: value for key, value in body.items() if key not in FOR_DECODE_ONLY}
    default = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    limits = {name: 1 for name in LIMITS if name in asked or name == default}
    return asked | limits | {"stream": False, "kv_transfer_params": OFFER}


def application(prefill: str, decode: str, client: httpx.AsyncClient) -> Starlette:
    """The router between two base URLs. Closes `client` when it shuts down."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await client.aclose()

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def hop(request: Request) -> Response:
        body = await _json_object(request)
        if body is None:
            return _error(400, "router", "the request is not a JSON object")
        return await _until_the_client_leaves(request, _hop(request, body))

    async def _hop(request: Request, body: dict[str, Any]) -> Response:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        headers[REQUEST_ID] = request.headers.get(REQUEST_ID) or uuid.uuid4().hex
        path = request.url.path
        if path == "/v1/responses":
            # This endpoint looks at no X-Request-Id and would give the two requests ids that have nothing in common.
            body = {"request_id": headers[REQUEST_ID]} | body
        try:
            answer = await client.post(prefill + path, json=prefill_request(body, path), headers=headers)
        except httpx.HTTPError as error:
            return _error(502, "prefill", f"prefill could not be asked: {error!r}")
        if answer.status_code != httpx.codes.OK:
            return _passed_on(answer)
        params = answer.json().get("kv_transfer_params")
        if not params:
            return _error(
                502, "prefill", "prefill answered without kv_transfer_params: has it a KV connector?"
            )
        asked = client.build_request(
            "POST", decode + path, json=body | {"kv_transfer_params": params}, headers=headers
        )
        return await _streamed(client, asked)

    routes = [Route("/health", health), *(Route(path, hop, methods=["POST"]) for path in PATHS)]
    return Starlette(routes=routes, lifespan=lifespan)


async def _until_the_client_leaves(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """The answer, unless the client leaves first: then asking ends, and with it the connection to the engine.

    Once the answer has begun, `StreamingResponse` watches the client itself.
    """
    asking = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        return _error(CLIENT_CLOSED_REQUEST, "router", "the client left")
    finally:
        for task in (asking, leaving):
            task.cancel()
        await asyncio.gather(asking, leaving, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    """Ends when the client leaves. The body has to be read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _json_object(request: Request) -> dict[str, Any] | None:
    try:
        body = await request.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


async def _streamed(client: httpx.AsyncClient, asked: httpx.Request) -> Response:
    """Decode's answer while it comes, whether it is a stream or not."""
    try:
        answer = await client.send(asked, stream=True)
    except httpx.HTTPError as error:
        return _error(502, "decode", f"decode could not be asked: {error!r}")
    return StreamingResponse(
        _closing(answer),
        status_code=answer.status_code,
        headers={ANSWERED_BY: "decode"},
        media_type=answer.headers.get("content-type"),
    )


async def _closing(answer: httpx.Response) -> AsyncIterator[bytes]:
    """What comes of an answer; its connection is closed at the end and when the client leaves."""
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


def _passed_on(answer: httpx.Response) -> Response:
    return Response(
        answer.content,
        status_code=answer.status_code,
        headers={ANSWERED_BY: "prefill"},
        media_type=answer.headers.get("content-type"),
    )


def _error(status: int, by: str, message: str) -> Response:
    content = {"error": {"message": message, "type": "router_error", "code": status}}
    return JSONResponse(content, status_code=status, headers={ANSWERED_BY: by})


def wrapped(app: Starlette, middleware: str) -> Any:
    """The application behind an ASGI middleware given by its dotted name; as it is for an empty one.

    Raises `ImportError` or `AttributeError` for a name that is none.
    """
    if not middleware:
        return app
    module, _, name = middleware.rpartition(".")
    return getattr(import_module(module), name)(app)


def client() -> httpx.AsyncClient:
    """A client without time limits of its own: how long an engine takes is for the caller to judge."""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(None), trust_env=False, headers={"accept-encoding": "identity"}
    )


def main() -> None:
    """Serve until ended, on the loopback interface unless told otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--prefill", required=True)
    parser.add_argument("--decode", required=True)
    parser.add_argument("--middleware", default="", help="dotted name of an ASGI middleware")
    chosen = parser.parse_args()
    app = wrapped(application(chosen.prefill, chosen.decode, client()), chosen.middleware)
    uvicorn.run(app, host=chosen.host, port=chosen.port, log_level="info", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()
