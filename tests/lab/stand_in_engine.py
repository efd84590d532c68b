"""A server that stands where an engine stands: it takes an engine's command line and speaks the same HTTP.

What it answers follows from the request alone, so that a test knows what to expect. `STAND_IN` in its environment
makes it misbehave: `die` ends it with an error, `port` with a taken port (only once when followed by a file's path), `deaf` never answers, `stray` leaves a process of its session, `slow`
answers no prompt.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
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
        self.headers: list[dict[str, str]] = []
        self.left = 0
        """Clients that closed their connection while they waited for `wait ROLE` or read `drip`."""

    def app(self) -> Starlette:
        """The server's application."""
        paths = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
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
        self.headers.append(dict(request.headers))
        text = body.get("prompt") or body.get("input") or body["messages"][0]["content"]
        if text == f"fail {self.role}":
            return JSONResponse({"error": {"message": f"{self.role} failed", "code": 503}}, status_code=503)
        if text == f"wait {self.role}":
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.left += 1
        if os.environ.get("STAND_IN") == "slow":
            await asyncio.sleep(600)
        params = body.get("kv_transfer_params") or {}
        if params.get("do_remote_decode"):
            offered = {} if text == "no offer" else {"remote_block_ids": [[1, 2]], "remote_engine_id": "p"}
            return JSONResponse(document(request.url.path, "x", 1) | {"kv_transfer_params": offered})
        said = f"{text[:20]} {'remote' if params else 'local'}"
        if body.get("stream"):
            pieces = self.drip() if text == "drip" else events(request.url.path, said, text)
            return StreamingResponse(pieces, media_type="text/event-stream")
        return JSONResponse(document(request.url.path, said, body.get("n", 1)))

    async def drip(self) -> AsyncIterator[bytes]:
        """A stream without end; counts the client that leaves it."""
        try:
            while True:
                yield b'data: {"choices": [{"index": 0, "text": "x", "delta": {"content": "x"}}]}\n\n'
                await asyncio.sleep(0.01)
        finally:
            self.left += 1


def document(path: str, said: str, choices: int) -> dict[str, Any]:
    """A whole answer in the shape of the endpoint."""
    if path == "/v1/responses":
        return response(said)
    call = {"id": "c", "type": "function", "function": {"name": "note", "arguments": "{}"}}
    calls = {"tool_calls": [call]} if said.startswith("call") else {}
    message = {"content": said, "reasoning": None, **calls}
    part: dict[str, Any] = {"message": message} if "chat" in path else {"text": said}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    each = [{"index": index, "finish_reason": "length", **part} for index in range(choices)]
    return {"choices": each, "usage": usage}


def response(said: str) -> dict[str, Any]:
    """A whole answer of the responses API."""
    parts = [{"type": "output_text", "text": said}]
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
    output = [thought, {"type": "message", "content": parts}]
    if said.startswith("call"):
        output.append({"type": "function_call", "name": "note"})
    usage = {"input_tokens": 7, "output_tokens": 3}
    return {"object": "response", "status": "completed", "output": output, "usage": usage}


async def events(path: str, said: str, text: str) -> AsyncIterator[bytes]:
    """The same answer in two pieces; a prompt `break` ends in an error instead of the second."""
    half = len(said) // 2
    for piece, reason in ((said[:half], None), (said[half:], "length")):
        if text == "break" and reason:
            yield b'data: {"error": {"message": "Internal server error", "code": 500}}\n\n'
            break
        part: dict[str, Any] = {"delta": {"content": piece}} if "chat" in path else {"text": piece}
        event: dict[str, Any] = {"choices": [{"index": 0, "finish_reason": reason, **part}]}
        if path == "/v1/responses":
            event = {"type": "response.output_text.delta", "delta": piece}
        yield f"data: {json.dumps(event)}\n\n".encode()
        await asyncio.sleep(0)
    last: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    if path == "/v1/responses":
        yield b'data: {"type": "response.reasoning_text.delta", "delta": "hm"}\n\n'
        last = {"type": "response.completed", "response": response(said)}
    yield f"data: {json.dumps(last)}\n\n".encode()
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
    if behaviour.startswith("port"):
        once = behaviour.removeprefix("port").strip()
        if not once or not Path(once).exists():
            if once:
                Path(once).touch()
            sys.exit("torch.distributed.DistNetworkError: port: 46789, code: -98, name: EADDRINUSE")
    if behaviour == "deaf":
        time.sleep(600)
    if behaviour == "stray":
        subprocess.Popen(["sleep", "600"])
    role = "prefill" if arguments.kv_transfer_config["kv_role"] == "kv_producer" else "decode"
    uvicorn.run(Engine(role).app(), host="127.0.0.1", port=arguments.port, log_level="info")


if __name__ == "__main__":
    main()
