"""A server that stands where an engine stands: it takes an engine's command line and speaks the same HTTP.

What it answers follows from the request alone, so that a test knows what to expect. `STAND_IN` in its environment
makes it misbehave: `die` ends it with an error, `deaf` never answers, `stray` leaves a process of its session.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route


class Engine:
    """One stand-in: remembers what it was asked."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        """Path, X-Request-Id and body of each request."""

    def app(self) -> Starlette:
        """The server's application."""
        paths = ("/v1/chat/completions", "/v1/completions")
        routes = [
            Route("/health", self.health),
            *(Route(path, self.answer, methods=["POST"]) for path in paths),
        ]
        return Starlette(routes=routes)

    async def health(self, _request: Request) -> Response:
        """As vLLM's."""
        return PlainTextResponse("")

    async def answer(self, request: Request) -> Response:
        """Prefill offers blocks; decode says what it was given. A prompt `fail ROLE` makes that role fail."""
        body = await request.json()
        self.asked.append((request.url.path, request.headers["x-request-id"], body))
        text = body.get("prompt") or body["messages"][0]["content"]
        if text == f"fail {self.role}":
            return JSONResponse({"error": {"message": f"{self.role} failed", "code": 503}}, status_code=503)
        params = body.get("kv_transfer_params") or {}
        if params.get("do_remote_decode"):
            offered = {} if text == "no offer" else {"remote_block_ids": [[1, 2]], "remote_engine_id": "p"}
            return JSONResponse(document(request.url.path, "x") | {"kv_transfer_params": offered})
        said = f"{text[:20]} {'remote' if params else 'local'}"
        if body.get("stream"):
            return StreamingResponse(events(request.url.path, said, text), media_type="text/event-stream")
        return JSONResponse(document(request.url.path, said))


def document(path: str, said: str) -> dict[str, Any]:
    """A whole answer in the shape of the endpoint."""
    part = {"message": {"content": said, "reasoning": None}} if "chat" in path else {"text": said}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return {"choices": [{"index": 0, "finish_reason": "length", **part}], "usage": usage}


async def events(path: str, said: str, text: str) -> AsyncIterator[bytes]:
    """The same answer in two pieces; a prompt `break` ends in an error instead of the second."""
    half = len(said) // 2
    for piece, reason in ((said[:half], None), (said[half:], "length")):
        if text == "break" and reason:
            yield b'data: {"error": {"message": "Internal server error", "code": 500}}\n\n'
            break
        part = {"delta": {"content": piece}} if "chat" in path else {"text": piece}
        yield f"data: {json.dumps({'choices': [{'index': 0, 'finish_reason': reason, **part}]})}\n\n".encode()
        await asyncio.sleep(0)
    yield f"data: {json.dumps({'choices': [], 'usage': {'prompt_tokens': 7, 'completion_tokens': 3}})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def main() -> None:
    """Take an engine's arguments; what a stand-in has no use for is ignored."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kv-transfer-config", type=json.loads, required=True)
    arguments, _ = parser.parse_known_args()
    behaviour = os.environ.get("STAND_IN", "")
    if behaviour == "die":
        sys.exit("RuntimeError: no such weights")
    if behaviour == "deaf":
        time.sleep(600)
    if behaviour == "stray":
        subprocess.Popen(["sleep", "600"])
    role = "prefill" if arguments.kv_transfer_config["kv_role"] == "kv_producer" else "decode"
    uvicorn.run(Engine(role).app(), host="127.0.0.1", port=arguments.port, log_level="info")


if __name__ == "__main__":
    main()
