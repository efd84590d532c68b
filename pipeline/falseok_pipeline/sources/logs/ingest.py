"""From log files to stored events: reads every log, joins answers to failures, and says what was read."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path

import msgspec

from falseok_collector.attributes import ApiResponse
from falseok_pipeline.clock import now_micros
from falseok_pipeline.dead_letters import DeadLetter
from falseok_pipeline.errors import StoreUnavailableError
from falseok_pipeline.sources import Batch, Slice
from falseok_pipeline.sources.logs.access import AccessCounts, AccessReader, Identified
from falseok_pipeline.sources.logs.engines import EngineState
from falseok_pipeline.sources.logs.files import LogFile, LogInputError, distinct, grouped
from falseok_pipeline.sources.logs.joining import Failure, Joined, Window
from falseok_pipeline.sources.logs.numbering import CHUNK_EVENTS, Draft, number
from falseok_pipeline.sources.logs.reader import Counts, FileReport, LogReader
from falseok_pipeline.sources.logs.servers import Server, shared_factors
from falseok_pipeline.sources.logs.templates import as_json
from falseok_pipeline.validation import validate
from falseok_pipeline.writer import EventSink, Interrupted, Writer

_BATCH_EVENTS = 5_000
_PATIENCE_SECONDS = 30.0

Told = Callable[[int, int], None]
"""Hears bytes read and bytes there are, of the files on disk."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What to read, and what the files do not say."""

    prefill: Sequence[Path] = ()
    decode: Sequence[Path] = ()
    access: Sequence[Path] = ()
    zone: tzinfo = UTC
    year: int | None = None


@dataclass
class Read:
    """What was read, for the report. Events and dead letters are in the store."""

    engines: list[EngineState] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    files: list[FileReport] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    """Files whose content another file had already given."""
    counts: Counts = field(default_factory=Counts)
    access: AccessCounts = field(default_factory=AccessCounts)
    joined: list[Joined] = field(default_factory=list)
    joined_by_id: int = 0
    events: int = 0
    damage: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[Failure]:
        """Every request whose transfer failed."""
        return [failure for server in self.servers for failure in server.failures.values()]

    @property
    def windows(self) -> list[Window]:
        """Every episode of failures."""
        return [window for server in self.servers for window in server.joiner.windows]


class _Output:
    """Puts events and dead letters into the store, some thousand at a time."""

    def __init__(self, store: EventSink) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        self._waiting_for = ""
        self._writer = Writer(store, now_micros, lambda seconds: _sleep(seconds, deadline), self._note)
        self._lines: list[bytes] = []
        self._letters: list[DeadLetter] = []
        self.events = 0

    def emit(self, line: bytes) -> None:
        """One more event."""
        self._lines.append(line)
        self.events += 1
        if len(self._lines) >= _BATCH_EVENTS:
            self.flush()

    def bury(self, letter: DeadLetter) -> None:
        """One more dead letter."""
        self._letters.append(letter)
        if len(self._letters) >= _BATCH_EVENTS // 10:
            self.flush()

    def flush(self) -> None:
        """Store what is there. Raises `StoreUnavailableError` when the store does not take it for long."""
        data = b"".join(line + b"\n" for line in self._lines)
        slices = (Slice("ingest logs", 0, data),) if data else ()
        batch = Batch(slices, tuple(self._letters))
        self._lines, self._letters = [], []
        try:
            self._writer.write(validate(batch))
        except Interrupted as error:
            raise StoreUnavailableError(self._waiting_for or "the store takes no events now") from error

    def _note(self, reason: str) -> None:
        self._waiting_for = reason or self._waiting_for


def _sleep(seconds: float, deadline: float) -> bool:
    if time.monotonic() + seconds > deadline:
        return True
    time.sleep(seconds)
    return False


def ingest(inputs: Inputs, store: EventSink, told: Told = lambda *_: None) -> Read:
    """Read all files into the store. Blocks; memory grows with the failed requests only. Again is the same as once.

    Raises:
        LogInputError: a file cannot be opened; nothing was stored.
        StoreUnavailableError: the store takes nothing for half a minute.
    """
    read = Read()
    logs = [(role, *distinct(group)) for role, group in _groups(inputs)]
    access, repeated = distinct([LogFile(path) for path in dict.fromkeys(inputs.access)])
    read.repeated = [str(file.path) for *_, copies in logs for file in copies] + [
        str(f.path) for f in repeated
    ]
    progress = _Progress([file for _, files, _ in logs for file in files] + access, told)
    output = _Output(store)
    for role, files, _ in logs:
        reader = LogReader(role, inputs.zone, inputs.year, output.emit, output.bury)
        reader.read(files, progress.at)
        read.servers += reader.servers.values()
        read.files += reader.files
    _read_access(access, read, output, progress)
    _emit_joined(read, output)
    _emit_configurations(read, output)
    output.flush()
    for report in read.files:
        read.counts.add(report.counts)
    read.damage += [report.damage for report in read.files if report.damage]
    read.events = output.events
    return read


def _groups(inputs: Inputs) -> list[tuple[str, list[LogFile]]]:
    groups = [("prefill", group) for group in grouped(inputs.prefill)]
    groups += [("decode", group) for group in grouped(inputs.decode)]
    for _, group in groups:
        for file in group:
            file.head()  # a file that cannot be read ends the work before anything is stored
    for path in inputs.access:
        LogFile(path).head()
    return groups


def _read_access(files: Iterable[LogFile], read: Read, output: _Output, progress: "_Progress") -> None:
    reader = AccessReader(read.failures, output.bury)
    drafts: list[Draft] = []
    for file in files:
        try:
            for answer in reader.read(file, partial(progress.at, file)):
                drafts += _identified(answer)
                for failure in answer.failures:
                    read.joined_by_id += not failure.answered_by_id
                    failure.answered_by_id = True
        except LogInputError as damage:
            read.damage.append(str(damage))
    read.access = reader.counts
    _number(drafts, output)


def _identified(answer: Identified) -> Iterable[Draft]:
    by_engine: dict[str, list[Failure]] = {}
    for failure in answer.failures:
        by_engine.setdefault(failure.engine_id, []).append(failure)
    for engine_id, failures in by_engine.items():
        response = msgspec.structs.replace(
            answer.response,
            joined_by="id",
            join_note="the record carries the request's id",
            engine_request_ids=[failure.request_id for failure in failures],
        )
        yield _response(response, engine_id, failures[0].external_id, answer.ts)


def _emit_joined(read: Read, output: _Output) -> None:
    for server in read.servers:
        drafts: list[Draft] = []
        for answer in server.joiner.joined():
            read.joined.append(answer)
            response = ApiResponse(
                http_status=answer.status,
                engine_request_ids=[answer.failure.request_id],
                joined_by=answer.joined_by,
                join_note=answer.note,
            )
            drafts.append(
                _response(response, answer.failure.engine_id, answer.failure.external_id, answer.ts)
            )
        _number(drafts, output)


def _response(response: ApiResponse, engine_id: str, external_id: str, ts: int) -> Draft:
    return Draft(ts, response, {"engine_id": engine_id, "external_id": external_id})


def _number(drafts: list[Draft], output: _Output) -> None:
    """Numbered by nothing but what they say, so that the same joins have the same ids."""
    for start in range(0, len(drafts), CHUNK_EVENTS):
        chunk = drafts[start : start + CHUNK_EVENTS]
        content = [[draft.ts, draft.attributes, draft.fields] for draft in chunk]
        number(chunk, as_json(content), output.emit)


def _emit_configurations(read: Read, output: _Output) -> None:
    states = [state for server in read.servers for state in server.engines.values()]
    for server in read.servers:
        for state in states:
            state.compatibility_hash = state.compatibility_hash or server.peers.get(state.engine_id, "")
    read.engines = states
    shared = shared_factors([state for state in states if state.started])
    for state in states:
        if state.started:
            event = state.event(shared)
            _number([Draft(state.last_micros, event, {"engine_id": state.engine_id})], output)


class _Progress:
    """Adds up how far the files are read."""

    def __init__(self, files: Sequence[LogFile], told: Told) -> None:
        self._sizes = {file.path: file.size_bytes() for file in files}
        self._done: dict[Path, int] = {}
        self._told = told

    def at(self, file: LogFile, done: int) -> None:
        """So many bytes of this file are behind us."""
        self._done[file.path] = min(done, self._sizes.get(file.path, done))
        self._told(sum(self._done.values()), sum(self._sizes.values()))
