"""What the response tap costs a streamed chunk, beside a plain ASGI pass-through and the bare application.

    python -m bench.tap_cost

The three serve the same stream in turns, in one process; every `await send(...)` of the application is timed
on its own. Budget: over the pass-through at most 10 microseconds a chunk (p50). The text features are computed once an
answer, in the sender thread; what they cost there is measured beside it, for a short answer and for the longest that
is looked at.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from bench.measurement import microseconds, write_result

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.api_server import ApiServerObserver
from falseok_collector.hooks.probe import Probe
from falseok_collector.settings import Settings
from falseok_collector.surprise_sample import SAMPLE
from falseok_collector.text_features import ChoiceText, PromptText, choice_features
from falseok_collector.text_window import HEAD_CHARACTERS, TAIL_CHARACTERS, TextWindow

RESPONSES = 300
CHUNKS = 200
BUDGET_P50_US = 10.0
FEATURE_ANSWERS = 100

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Send], Awaitable[None]]

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/v1/chat/completions",
    "headers": [(b"host", b"engine"), (b"content-type", b"application/json"), (b"x-request-id", b"r-1")],
}


def chunk(content: str, finish_reason: str | None = None) -> bytes:
    """A chunk as vLLM streams it."""
    body = {
        "id": "chatcmpl-5f0c2b1e-8f1a-4c55-9d3e-0123456789ab",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "choices": [
            {"index": 0, "delta": {"content": content}, "logprobs": None, "finish_reason": finish_reason}
        ],
    }
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
}
STREAM = [chunk(" token") for _ in range(CHUNKS)] + [chunk("", "stop"), b"data: [DONE]\n\n"]


class Streaming:
    """The application: streams, and times each of its sends."""

    def __init__(self) -> None:
        self.samples: list[int] = []

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:  # noqa: ARG002 - ASGI's own names
        clock = time.perf_counter_ns
        await send(START)
        for body in STREAM:
            message = {"type": "http.response.body", "body": body, "more_body": True}
            begin = clock()
            await send(message)
            self.samples.append(clock() - begin)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Tapped(Streaming):
    """The same class, to be wrapped by the hook of the API server."""

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        await super().__call__(scope, receive, send)


class PassThrough(Streaming):
    """The same behind an ASGI middleware that does nothing."""

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        async def through(message: Message) -> None:
            await send(message)

        await super().__call__(scope, receive, through)


def report(hook: str, target: str, reason: str, detail: str) -> None:
    raise RuntimeError(f"{hook} on {target}: {reason}, {detail}")


async def receive() -> Message:
    return {"type": "http.disconnect"}


async def send(_: Message) -> None:
    """A server that takes everything at once."""


async def serve_in_turns(applications: dict[str, Streaming], emitter: Emitter) -> None:
    for _ in range(RESPONSES):
        for application in applications.values():
            await application(dict(SCOPE), receive, send)
        emitter.ring.take(sys.maxsize)


def features_cost() -> dict[str, Any]:
    """Milliseconds an answer takes in the sender thread, by its length in characters."""
    found = {}
    for characters in (1_200, HEAD_CHARACTERS + TAIL_CHARACTERS):
        text = (SAMPLE * (characters // len(SAMPLE) + 1))[:characters]
        samples = []
        for _ in range(FEATURE_ANSWERS):
            window = TextWindow()
            for at in range(0, characters, 5):
                window.add(text[at : at + 5])
            begin = time.perf_counter_ns()
            choice_features(ChoiceText(window, TextWindow()), PromptText(text[:2_000]))
            samples.append(time.perf_counter_ns() - begin)
        found[f"{characters}_characters"] = {
            "p50_ms": round(statistics.median(samples) / 1e6, 2),
            "p95_ms": round(statistics.quantiles(samples, n=20)[18] / 1e6, 2),
        }
    return found


def main() -> None:
    emitter = Emitter(Settings(sinks=("memory",)))
    observer = ApiServerObserver(emitter)
    Probe("api.application", "bench", around=observer.around_application, report=report).install(
        Tapped, "__call__", ("scope", "receive", "send")
    )
    applications = {"bare": Streaming(), "pass_through": PassThrough(), "tap": Tapped()}
    asyncio.run(serve_in_turns(applications, emitter))
    for application in applications.values():
        application.samples.clear()
    asyncio.run(serve_in_turns(applications, emitter))
    figures = {name: microseconds(application.samples) for name, application in applications.items()}
    added = round(figures["tap"]["p50_us"] - figures["pass_through"]["p50_us"], 3)
    result: dict[str, Any] = {
        "budget_p50_us": BUDGET_P50_US,
        "chunks_a_variant": RESPONSES * len(STREAM),
        "chunk_bytes": len(STREAM[0]),
        **figures,
        "over_pass_through": {
            "p50_us": added,
            "p99_us": round(figures["tap"]["p99_us"] - figures["pass_through"]["p50_us"], 3),
            "p50_ratio": round(figures["tap"]["p50_us"] / figures["pass_through"]["p50_us"], 2),
            "within_budget": added <= BUDGET_P50_US,
        },
        "text_features_an_answer": features_cost(),
    }
    path = write_result("tap_cost", result)
    for name, percentiles in figures.items():
        print(f"{name:14} {percentiles['p50_us']:7.2f} us (p50) {percentiles['p99_us']:7.2f} us (p99)")
    print(
        f"the tap adds {added:.2f} us a chunk (p50); {'within' if added <= BUDGET_P50_US else 'OVER'} budget"
    )
    for length, cost in result["text_features_an_answer"].items():
        print(f"text features of {length.replace('_', ' ')}: {cost['p50_ms']} ms (p50), in the sender thread")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
