"""Bodies as vLLM's OpenAI front end sends them (shapes of 0.27 and 0.32)."""

from typing import Any

import msgspec


def chat(**changes: Any) -> dict[str, Any]:
    """A chat completion, not streamed."""
    body = {
        "id": "chatcmpl-r",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "reasoning": None, "tool_calls": []},
                "logprobs": None,
                "finish_reason": "stop",
                "stop_reason": None,
            }
        ],
        "usage": {"prompt_tokens": 7, "total_tokens": 9, "completion_tokens": 2},
        "kv_transfer_params": None,
    }
    return {**body, **changes}


def chunk(*choices: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """One chunk of a streamed chat completion."""
    body = {"id": "chatcmpl-r", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    return {**body, "choices": list(choices), **changes}


def delta(index: int = 0, finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """One choice of a chunk."""
    return {"index": index, "delta": fields, "logprobs": None, "finish_reason": finish_reason}


def event(payload: dict[str, Any] | str, line_end: str = "\n") -> bytes:
    """A server-sent event."""
    text = payload if isinstance(payload, str) else msgspec.json.encode(payload).decode()
    return f"data: {text}{line_end}{line_end}".encode()


DONE = "[DONE]"
STREAM = b"".join(
    [
        event(chunk(delta(role="assistant", content=""))),
        b": keep-alive\n\n",
        event(chunk(delta(reasoning="Let me think \u2026"))),
        event(chunk(delta(content="H\u00e9llo"))),
        event(chunk(delta(index=1, content="\u4f60\u597d"))),
        event(chunk(delta(tool_calls=[{"index": 0, "function": {"name": "find", "arguments": '{"q"'}}]))),
        event(chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}]))),
        event(chunk(delta(index=1, finish_reason="length"))),
        event(chunk(delta(finish_reason="tool_calls"))),
        event(chunk(usage={"prompt_tokens": 11, "total_tokens": 18, "completion_tokens": 7})),
        event(DONE),
    ]
)
"""A stream with everything in it: two choices, reasoning, tool calls, a comment, usage, several alphabets."""
