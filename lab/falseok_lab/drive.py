"""Sends requests to a running pair and keeps what the client saw, request by request.

Unless asked otherwise half are chats and half completions, half of each streamed, so that every path of the API
server is taken.
"""

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import httpx

from falseok_lab.answers import Answer, agreement, append, counts, read
from falseok_lab.asking import PATHS, Seen, ask
from falseok_lab.hop import sent_nowhere
from falseok_lab.request_bodies import DriveSettings, endpoint_of, request_body
from falseok_lab.state import PairState

__all__ = ["Answer", "DriveSettings", "agreement", "counts", "drive", "drive_direct", "request_body"]


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
        endpoint = endpoint_of(self.settings, index)
        external_id = f"{self.state.name}-{self.run}-{'direct-' if self.direct else ''}{index:04d}"
        headers = {"x-request-id": external_id}
        if self.settings.traceparent:
            headers["traceparent"] = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        url = self.state.decode_url if self.direct else self.state.router_url
        if self.direct:
            body["cache_salt"] = secrets.token_hex(8)
        leave = self.settings.leave_after_seconds
        try:
            if self.settings.unreachable_prefill and not self.direct:
                url = self.state.decode_url
                body = sent_nowhere(self.client, self.state.prefill_url, endpoint, body, headers)
            seen = ask(self.client, url + PATHS[endpoint], body, headers, leave)
        except httpx.HTTPError as error:
            seen = Seen(error=f"prefill could not be asked: {error!r}")
        return Answer(
            external_id=external_id,
            run=self.run,
            index=index,
            direct=self.direct,
            endpoint=endpoint,
            stream=bool(body.get("stream")),
            traceparent=headers.get("traceparent", ""),
            **_told(seen),
        )


def _told(seen: Seen) -> dict[str, Any]:
    return {
        "status": seen.status,
        "error": seen.error,
        "content": seen.content,
        "reasoning": seen.reasoning,
        "finish_reason": seen.finish_reason,
        "choices": len(seen.choices),
        "tool_calls": len(seen.tool_calls),
        "left": seen.left,
        "prompt_tokens": int(seen.usage.get("prompt_tokens") or 0),
        "completion_tokens": int(seen.usage.get("completion_tokens") or 0),
        "seconds": seen.seconds,
        "first_text_seconds": seen.first_text_seconds,
    }


def _send_all(
    state: PairState,
    settings: DriveSettings,
    run: str,
    on_answer: Callable[[Answer], None] | None,
    *,
    direct: bool,
) -> list[Answer]:
    answers: list[Answer] = []
    client = httpx.Client(timeout=settings.timeout_seconds, trust_env=False)
    pool = ThreadPoolExecutor(max_workers=settings.concurrency)
    try:
        sender = _Sender(client=client, state=state, settings=settings, run=run, direct=direct)
        pending = [pool.submit(sender, index) for index in range(settings.requests)]
        for done in as_completed(pending):
            answer = done.result()
            append(state.client_log, answer)
            answers.append(answer)
            if on_answer is not None:
                on_answer(answer)
        client.close()
    finally:
        # Whoever is interrupted ends the pair next, and with it what is still being asked: waiting for answers
        # here would take as long as the engines like.
        pool.shutdown(wait=False, cancel_futures=True)
    return sorted(answers, key=lambda answer: answer.index)


def _runs(state: PairState) -> list[str]:
    return list(dict.fromkeys(answer.run for answer in read(state.client_log) if not answer.direct))


def _next_run(state: PairState) -> str:
    return f"r{len(_runs(state)) + 1}"


def _last_run(state: PairState) -> str:
    runs = _runs(state)
    return runs[-1] if runs else "r1"
