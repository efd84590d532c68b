"""Sends requests to a running pair and keeps what the client saw, request by request.

Half are chats and half completions, half of each streamed, so that every path of the API server is taken.
"""

import secrets
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from falseok_lab.answers import Answer, agreement, append, counts, read
from falseok_lab.asking import ask
from falseok_lab.prompts import prompt
from falseok_lab.state import PairState

__all__ = ["Answer", "DriveSettings", "agreement", "counts", "drive", "drive_direct"]


@dataclass(frozen=True, kw_only=True)
class DriveSettings:
    """What to send."""

    requests: int = 32
    concurrency: int = 2
    max_tokens: int = 16
    temperature: float = 0.0
    stream: Literal["mixed", "always", "never"] = "mixed"
    endpoint: Literal["mixed", "chat", "completions"] = "mixed"
    seed: int | None = None
    """Decides the prompts. None: from the run, so that no run meets the prefix cache of an earlier one."""
    run: str | None = None
    """Part of the request ids `<name>-<run>-<index>`; None: `r1`, `r2`, … after what the client log holds."""
    timeout_seconds: float = 120.0


def drive(
    state: PairState, settings: DriveSettings, on_answer: Callable[[Answer], None] | None = None
) -> list[Answer]:
    """Send requests through the router: prefill, then decode. Blocks until all have ended; returns them by index.

    Each answer is appended to the lab's `client.jsonl` as it ends and handed to `on_answer`, from this thread.
    Whatever the engines answer is noted, not raised. Raises `LabError` or `OSError` when the log cannot be kept.
    """
    run = settings.run or _next_run(state)
    return _send_all(state, settings, run, on_answer, direct=False)


def drive_direct(
    state: PairState, settings: DriveSettings, on_answer: Callable[[Answer], None] | None = None
) -> list[Answer]:
    """Send the same prompts straight to decode, which computes them itself: the ground truth for `agreement`.

    Each has a `cache_salt` of its own, otherwise it would be answered from the very blocks it is to check. Without
    a run in the settings they count to the last routed run. Blocks, notes and raises as `drive` does.
    """
    run = settings.run or _last_run(state)
    return _send_all(state, settings, run, on_answer, direct=True)


@dataclass(frozen=True, kw_only=True)
class _Sender:
    """Sends any request of one run."""

    client: httpx.Client
    state: PairState
    settings: DriveSettings
    run: str
    direct: bool

    def __call__(self, index: int) -> Answer:
        """Send the request with that number and read its answer to the end."""
        body = request_body(self.settings, index, self.run, self.state.served_model)
        if self.direct:
            body["cache_salt"] = secrets.token_hex(8)
        endpoint = _endpoint(self.settings, index)
        url = self.state.decode_url if self.direct else self.state.router_url
        external_id = f"{self.state.name}-{self.run}-{'direct-' if self.direct else ''}{index:04d}"
        seen = ask(self.client, url, endpoint, body, external_id)
        return Answer(
            external_id=external_id,
            run=self.run,
            index=index,
            direct=self.direct,
            endpoint=endpoint,
            stream=bool(body.get("stream")),
            status=seen.status,
            error=seen.error,
            content=seen.content,
            reasoning=seen.reasoning,
            finish_reason=seen.finish_reason,
            prompt_tokens=int(seen.usage.get("prompt_tokens") or 0),
            completion_tokens=int(seen.usage.get("completion_tokens") or 0),
            seconds=seen.seconds,
            first_text_seconds=seen.first_text_seconds,
        )


def _send_all(
    state: PairState,
    settings: DriveSettings,
    run: str,
    on_answer: Callable[[Answer], None] | None,
    *,
    direct: bool,
) -> list[Answer]:
    answers: list[Answer] = []
    with (
        httpx.Client(timeout=settings.timeout_seconds, trust_env=False) as client,
        ThreadPoolExecutor(max_workers=settings.concurrency) as pool,
    ):
        sender = _Sender(client=client, state=state, settings=settings, run=run, direct=direct)
        pending = [pool.submit(sender, index) for index in range(settings.requests)]
        try:
            for done in as_completed(pending):
                answer = done.result()
                append(state.client_log, answer)
                answers.append(answer)
                if on_answer is not None:
                    on_answer(answer)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return sorted(answers, key=lambda answer: answer.index)


def request_body(settings: DriveSettings, index: int, run: str, model: str) -> dict[str, Any]:
    """The request with number `index` of a run."""
    seed = zlib.crc32(run.encode()) % 10_000 if settings.seed is None else settings.seed
    text = prompt(index, seed)
    chat = _endpoint(settings, index) == "chat"
    body: dict[str, Any] = {
        "model": model,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        **({"messages": [{"role": "user", "content": text}]} if chat else {"prompt": text}),
    }
    if settings.stream == "always" or (settings.stream == "mixed" and index % 4 >= 2):
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _endpoint(settings: DriveSettings, index: int) -> str:
    return ("chat", "completions")[index % 2] if settings.endpoint == "mixed" else settings.endpoint


def _runs(state: PairState) -> list[str]:
    return list(dict.fromkeys(answer.run for answer in read(state.client_log) if not answer.direct))


def _next_run(state: PairState) -> str:
    return f"r{len(_runs(state)) + 1}"


def _last_run(state: PairState) -> str:
    runs = _runs(state)
    return runs[-1] if runs else "r1"
