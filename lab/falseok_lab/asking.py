"""Asks one question over HTTP and notes what a client sees, streamed or not. Knows the OpenAI API, nothing of labs."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses"}
MAX_ERROR_CHARACTERS = 2000


@dataclass(kw_only=True)
class Seen:
    """What has come of an answer so far."""

    status: int = 0
    error: str = ""
    content: str = ""
    """Of the first choice, as are the next two."""
    reasoning: str = ""
    finish_reason: str = ""
    choices: set[int] = field(default_factory=set)
    tool_calls: set[tuple[int, int]] = field(default_factory=set)
    """Choice and number of each call."""
    left: bool = False
    """The client closed the connection before the end."""
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    first_text_seconds: float = 0.0


def ask(
    client: httpx.Client,
    url: str,
    body: dict[str, Any],
    headers: Mapping[str, str],
    leave_after_seconds: float | None = None,
) -> Seen:
    """Send one request to `url`, path included, and read its answer to the end, or close the connection after `leave_after_seconds`.

    Never raises for what the server does: it is noted.
    """
    seen = Seen()
    begun = time.monotonic()
    timeout = client.timeout if leave_after_seconds is None else httpx.Timeout(leave_after_seconds)
    deadline = None if leave_after_seconds is None else begun + leave_after_seconds
    try:
        with client.stream("POST", url, json=body, headers=dict(headers), timeout=timeout) as response:
            seen.status = response.status_code
            if response.status_code != httpx.codes.OK:
                seen.error = response.read().decode(errors="replace")[:MAX_ERROR_CHARACTERS]
            elif body.get("stream"):
                _read_stream(response, seen, begun, deadline)
            else:
                _take(json.loads(response.read()), seen, "message", begun)
    except httpx.ReadTimeout as error:
        seen.left = deadline is not None
        seen.error = "" if seen.left else _described(error)
    except (httpx.HTTPError, ValueError) as error:
        seen.error = _described(error)
    seen.seconds = round(time.monotonic() - begun, 4)
    return seen


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]


def _read_stream(response: httpx.Response, seen: Seen, begun: float, deadline: float | None) -> None:
    for event in _events(response):
        if event.get("error") or event.get("type") == "error":
            seen.error = json.dumps(event.get("error") or event)[:MAX_ERROR_CHARACTERS]
        else:
            _take(event, seen, "delta", begun)
        if deadline is not None and time.monotonic() >= deadline:
            seen.left = True
            return


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            event: dict[str, Any] = json.loads(data)
            yield event


def _take(document: dict[str, Any], seen: Seen, part: str, begun: float) -> None:
    """Add an answer, or a piece of it, to what was seen."""
    kind = document.get("type", "")
    if kind == "response.output_text.delta":
        seen.content += document.get("delta") or ""
    elif kind.startswith("response.reasoning") and kind.endswith(".delta"):
        seen.reasoning += document.get("delta") or ""
    elif document.get("object") == "response":
        _take_response(document, seen, whole=True)
    elif kind in {"response.completed", "response.incomplete", "response.failed"}:
        _take_response(document.get("response") or {}, seen, whole=False)
    else:
        _take_choices(document, seen, part)
    if (seen.content or seen.reasoning) and not seen.first_text_seconds:
        seen.first_text_seconds = round(time.monotonic() - begun, 4)


def _take_choices(document: dict[str, Any], seen: Seen, part: str) -> None:
    seen.usage = document.get("usage") or seen.usage
    for choice in document.get("choices", []):
        index = choice.get("index", 0)
        said = choice.get(part) or {}
        seen.choices.add(index)
        calls = enumerate(said.get("tool_calls") or [])
        seen.tool_calls |= {(index, call.get("index", number)) for number, call in calls}
        if index == 0:
            seen.content += said.get("content") or choice.get("text") or ""
            seen.reasoning += said.get("reasoning") or said.get("reasoning_content") or ""
            seen.finish_reason = choice.get("finish_reason") or seen.finish_reason


def _take_response(response: dict[str, Any], seen: Seen, *, whole: bool) -> None:
    """A finished response of the responses API; its text counts only where no pieces came before."""
    seen.choices.add(0)
    seen.finish_reason = response.get("status") or ""
    usage = response.get("usage") or {}
    seen.usage = {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
    }
    if response.get("error"):
        seen.error = json.dumps(response["error"])[:MAX_ERROR_CHARACTERS]
    for number, item in enumerate(response.get("output") or []):
        texts = "".join(part.get("text") or "" for part in item.get("content") or [])
        if item.get("type") == "function_call":
            seen.tool_calls.add((0, number))
        elif whole and item.get("type") == "reasoning":
            seen.reasoning += texts
        elif whole:
            seen.content += texts
