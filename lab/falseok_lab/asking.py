"""Asks one question over HTTP and notes what a client sees, streamed or not. Knows the OpenAI API, nothing of labs."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
MAX_ERROR_CHARACTERS = 2000


@dataclass(kw_only=True)
class Seen:
    """What has come of an answer so far."""

    status: int = 0
    error: str = ""
    content: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    first_text_seconds: float = 0.0


def ask(client: httpx.Client, url: str, endpoint: str, body: dict[str, Any], request_id: str) -> Seen:
    """Send one request and read its answer to the end. Never raises for what the server does: it is noted."""
    seen = Seen()
    begun = time.monotonic()
    headers = {"x-request-id": request_id}
    try:
        with client.stream("POST", url + PATHS[endpoint], json=body, headers=headers) as response:
            seen.status = response.status_code
            if response.status_code != httpx.codes.OK:
                seen.error = response.read().decode(errors="replace")[:MAX_ERROR_CHARACTERS]
            elif body.get("stream"):
                _read_stream(response, seen, begun)
            else:
                _take(json.loads(response.read()), seen, "message", begun)
    except (httpx.HTTPError, ValueError) as error:
        seen.error = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
    seen.seconds = round(time.monotonic() - begun, 4)
    return seen


def _read_stream(response: httpx.Response, seen: Seen, begun: float) -> None:
    for event in _events(response):
        if "error" in event:
            seen.error = json.dumps(event["error"])[:MAX_ERROR_CHARACTERS]
        else:
            _take(event, seen, "delta", begun)


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            event: dict[str, Any] = json.loads(data)
            yield event


def _take(document: dict[str, Any], seen: Seen, part: str, begun: float) -> None:
    """Add the first choice of an answer, or of a piece of it, to what was seen."""
    seen.usage = document.get("usage") or seen.usage
    for choice in document.get("choices", [])[:1]:
        said = choice.get(part) or {}
        seen.content += said.get("content") or choice.get("text") or ""
        seen.reasoning += said.get("reasoning") or said.get("reasoning_content") or ""
        seen.finish_reason = choice.get("finish_reason") or seen.finish_reason
        if (seen.content or seen.reasoning) and not seen.first_text_seconds:
            seen.first_text_seconds = round(time.monotonic() - begun, 4)
