"""The hop between a client and a prefill/decode pair, as a router in front of real engines does it.

One request becomes two that share an `X-Request-Id`: prefill computes the KV cache and says where it lies, decode
gets the same request with that. Decode's answer goes to the client byte for byte. It knows nothing of FalseOK.

    python -m falseok_lab.router --port PORT --prefill URL --decode URL
"""

import argparse
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from falseok_lab.ports import LOOPBACK

PATHS = ("/v1/chat/completions", "/v1/completions")
REQUEST_ID = "x-request-id"
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


def prefill_request(body: dict[str, Any]) -> dict[str, Any]:
    """What prefill is asked: the same request for one token, not streamed, keeping its KV cache."""
    asked = {key: value for key, value in body.items() if key not in {"stream_options", "min_tokens"}}
    asked |= {"max_tokens": 1, "stream": False, "kv_transfer_params": OFFER}
    if "max_completion_tokens" in asked:
        asked["max_completion_tokens"] = 1
    return asked


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
        headers = {REQUEST_ID: request.headers.get(REQUEST_ID) or uuid.uuid4().hex}
        path = request.url.path
        try:
            answer = await client.post(prefill + path, json=prefill_request(body), headers=headers)
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
        answer.aiter_raw(),
        status_code=answer.status_code,
        headers={ANSWERED_BY: "decode"},
        media_type=answer.headers.get("content-type"),
        background=BackgroundTask(answer.aclose),
    )


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


def client() -> httpx.AsyncClient:
    """A client without time limits of its own: how long an engine takes is for the caller to judge."""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(None), trust_env=False, headers={"accept-encoding": "identity"}
    )


def main() -> None:
    """Serve on the loopback interface until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--prefill", required=True)
    parser.add_argument("--decode", required=True)
    chosen = parser.parse_args()
    app = application(chosen.prefill, chosen.decode, client())
    uvicorn.run(app, host=LOOPBACK, port=chosen.port, log_level="info", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()
