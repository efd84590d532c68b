"""Records of answers that carry request ids: what a client wrote down, or the access log of a router.

Nothing of a text is kept but its length.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from falseok_collector.attributes import ApiResponse
from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.sources.logs.files import LogFile, RawLine
from falseok_pipeline.sources.logs.joining import Failure
from falseok_pipeline.sources.logs.servers import reported_ids
from falseok_pipeline.sources.logs.wrapping import micros_of, unwrap

_IDS = ("x_request_id", "x-request-id", "request_id", "requestId", "req_id", "external_id", "id")
_STATUSES = ("status", "status_code", "http_status", "response_code", "code")
_REASONS = ("finish", "finish_reason", "finish_reasons")
_TEXTS = ("text", "content", "output_text", "response_text")
_TOKENS = ("completion_tokens", "output_tokens")
_TIMES = ("ts", "time", "timestamp", "@timestamp", "start_time")
_NESTED = ("headers", "request", "response", "usage")
_STATUS_IN_LINE = re.compile(r'"\s(\d{3})\b|\bstatus[=:]\s?"?(\d{3})\b|\s(\d{3})\s')
_TOKEN = re.compile(r"[A-Za-z0-9][\w.:-]{2,255}")

_json = msgspec.json.Decoder(dict[str, Any])


@dataclass
class AccessCounts:
    """What became of the lines of the access files."""

    lines: int = 0
    understood: Counter[str] = field(default_factory=Counter)
    meaningless: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0


@dataclass(frozen=True, slots=True)
class Identified:
    """An answer and the failed requests it belongs to."""

    failures: tuple[Failure, ...]
    ts: int
    response: ApiResponse


class AccessReader:
    """Looks for the ids of failed requests in records of answers."""

    def __init__(self, failures: Iterable[Failure], bury: Callable[[DeadLetter], None]) -> None:
        self.counts = AccessCounts()
        self._bury = bury
        self._by_id: dict[str, list[Failure]] = {}
        for failure in failures:
            for name in {failure.external_id, *reported_ids(failure.request_id)}:
                if name:
                    self._by_id.setdefault(name, []).append(failure)

    def read(self, file: LogFile, told: Callable[[int], None]) -> Iterable[Identified]:
        """The answers to failed requests in this file. Raises `LogInputError`."""
        for raw in file.lines(told):
            self.counts.lines += 1
            answer = self._answer(raw, str(file.path))
            if answer is not None:
                self.counts.understood["answer_with_id"] += 1
                yield answer

    def _answer(self, raw: RawLine, path: str) -> Identified | None:
        text = unwrap(raw.data.decode("utf-8", "replace").replace("\0", "")).text.strip()
        if not text:
            self.counts.meaningless["blank"] += 1
            return None
        if text.startswith("{"):
            return self._record(raw, text, path)
        failures = self._failures(_TOKEN.findall(text))
        status = _STATUS_IN_LINE.search(text)
        if not failures or status is None:
            self.counts.meaningless["no_failed_request" if status else "no_status"] += 1
            return None
        code = int(next(group for group in status.groups() if group))
        return Identified(failures, failures[0].ts, ApiResponse(http_status=code))

    def _record(self, raw: RawLine, text: str, path: str) -> Identified | None:
        try:
            record = _json.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self.counts.dead_letters += 1
            reason = Reason.TOO_LONG if raw.length > len(raw.data) else Reason.NOT_JSON
            message = f"line {raw.number:,}: not a JSON object: {error}"[:500]
            self._bury(DeadLetter(reason, message, path, raw.byte_offset, raw.data[:65_536]))
            return None
        flat = _flattened(record)
        failures = self._failures(str(flat[name]) for name in _IDS if isinstance(flat.get(name), str | int))
        status = next((value for name in _STATUSES if (value := _status(flat.get(name)))), 0)
        if not failures or not status:
            self.counts.meaningless["no_failed_request" if status else "no_status"] += 1
            return None
        return Identified(failures, _time(flat) or failures[0].ts, _response(flat, status))

    def _failures(self, names: Iterable[str]) -> tuple[Failure, ...]:
        found: dict[int, Failure] = {}
        for name in names:
            for failure in self._by_id.get(name, ()):
                found[id(failure)] = failure
        return tuple(found.values())


def _flattened(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the fields of the usual inner objects; what stands outside wins. Names in small letters."""
    flat: dict[str, Any] = {}
    for name in _NESTED:
        inner = record.get(name)
        if isinstance(inner, Mapping):
            flat.update({str(key).lower(): value for key, value in inner.items()})
    flat.update({key if key == "requestId" else key.lower(): value for key, value in record.items()})
    return flat


def _status(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"[1-5]\d\d", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599 else 0


def _time(flat: Mapping[str, Any]) -> int:
    for name in _TIMES:
        value = flat.get(name)
        if isinstance(value, str) and (micros := micros_of(value)):
            return max(micros, 0)
        if isinstance(value, int | float) and not isinstance(value, bool) and 1e9 <= value < 1e17:
            scale = 1_000_000 if value < 1e11 else 1_000 if value < 1e14 else 1
            return int(value * scale)
    return 0


def _response(flat: Mapping[str, Any], status: int) -> ApiResponse:
    told: Any = next((flat[name] for name in _REASONS if flat.get(name)), [])
    reasons: list[Any] = told if isinstance(told, list) else [told]
    tokens = next((flat[name] for name in _TOKENS if isinstance(flat.get(name), int)), 0)
    return ApiResponse(
        http_status=status,
        finish_reasons=[str(reason)[:64] for reason in reasons[:64]],
        content_characters=max(
            (len(flat[name]) for name in _TEXTS if isinstance(flat.get(name), str)), default=0
        ),
        completion_tokens=tokens if 0 <= tokens < 2**53 else 0,
        stream=flat.get("stream") is True,
        error_in_stream=bool(flat.get("error")) and status < 400,
        model=str(flat.get("model") or "")[:256],
    )
