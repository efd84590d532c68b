"""What a drive asks: the body of each request, decided by its settings, its run and its number alone."""

import zlib
from dataclasses import dataclass
from typing import Any, Literal

from falseok_lab.prompts import prompt

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Keep a short note.",
        "parameters": {
            "type": "object",
            "properties": {"day": {"type": "integer"}, "urgent": {"type": "boolean"}},
            "required": ["day", "urgent"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class DriveSettings:
    """What to send."""

    requests: int = 32
    concurrency: int = 2
    max_tokens: int = 16
    ignore_eos: bool = False
    """Answer with exactly `max_tokens` tokens, whatever the model would like."""
    temperature: float = 0.0
    n: int = 1
    """Choices asked for in each request; more than one needs a temperature above 0 to differ."""
    stream: Literal["mixed", "always", "never"] = "mixed"
    endpoint: Literal["mixed", "chat", "completions", "responses"] = "mixed"
    thinking: bool | None = None
    """Asks the chat template to switch thinking on or off; None: says nothing."""
    tools: bool = False
    """Offer a tool and require a call of it (chat only)."""
    traceparent: bool = False
    """Send a W3C trace context of its own with each request."""
    leave_after_seconds: float | None = None
    """The client closes the connection after so long."""
    unreachable_prefill: bool = False
    """Decode is told to fetch the cache from where nobody answers, and waits for it: see `falseok_lab.hop`."""
    seed: int | None = None
    """Decides the prompts. None: from the run, so that no run meets the prefix cache of an earlier one."""
    run: str | None = None
    """Part of the request ids `<name>-<run>-<index>`; None: `r1`, `r2`, … after what the client log holds."""
    timeout_seconds: float = 120.0


def request_body(settings: DriveSettings, index: int, run: str, model: str) -> dict[str, Any]:
    """The request with number `index` of a run."""
    seed = zlib.crc32(run.encode()) % 10_000 if settings.seed is None else settings.seed
    text = prompt(index, seed)
    endpoint = endpoint_of(settings, index)
    body: dict[str, Any] = {"model": model, "temperature": settings.temperature}
    stream = settings.stream == "always" or (settings.stream == "mixed" and index % 4 >= 2)
    if endpoint == "responses":
        body |= {"input": text, "max_output_tokens": settings.max_tokens, "store": False}
        return body | ({"stream": True} if stream else {})
    body |= {"max_tokens": settings.max_tokens}
    if settings.n > 1:
        body["n"] = settings.n
    if settings.ignore_eos:
        body["ignore_eos"] = True
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if endpoint == "completions":
        return body | {"prompt": text}
    return body | _chat(settings, text)


def _chat(settings: DriveSettings, text: str) -> dict[str, Any]:
    chat: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
    if settings.thinking is not None:
        chat["chat_template_kwargs"] = {"enable_thinking": settings.thinking}
    if settings.tools:
        chat |= {"tools": [TOOL], "tool_choice": "required"}
    return chat


def endpoint_of(settings: DriveSettings, index: int) -> str:
    """Which endpoint the request with number `index` goes to."""
    return ("chat", "completions")[index % 2] if settings.endpoint == "mixed" else settings.endpoint
