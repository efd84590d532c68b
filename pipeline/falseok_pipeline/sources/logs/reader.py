"""Reads the files of one log into the events of its servers. Every line is counted once: understood, meaningless or dead."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from hashlib import sha256

from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.sources.logs import templates
from falseok_pipeline.sources.logs.files import MAX_LINE_BYTES, LogFile, LogInputError, RawLine
from falseok_pipeline.sources.logs.numbering import Draft, Emit, Numbering
from falseok_pipeline.sources.logs.records import Record, level_and_stamp, split
from falseok_pipeline.sources.logs.servers import Server
from falseok_pipeline.sources.logs.templates import Answer, UnreadableStatementError, as_json
from falseok_pipeline.sources.logs.times import Clock, first_micros, year_of
from falseok_pipeline.sources.logs.wrapping import Unwrapped, unwrap

_UVICORN = re.compile(r"\s*(?:INFO|WARNING|ERROR):\s")
_HEAD_BYTES = 4_096
MAX_SERVERS = 1_000
"""Pods, containers or services that one log is believed to hold; lines of further ones mean nothing, and are counted so."""
_KEPT_BYTES = 65_536
"""How much of a line without end goes into its dead letter."""


@dataclass
class Counts:
    """What became of the lines."""

    lines: int = 0
    understood: Counter[str] = field(default_factory=Counter)
    meaningless: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0

    def add(self, other: "Counts") -> None:
        """Take the counts of another file in."""
        self.lines += other.lines
        self.understood += other.understood
        self.meaningless += other.meaningless
        self.dead_letters += other.dead_letters


@dataclass
class FileReport:
    """One file as it was read."""

    path: str
    counts: Counts
    year: int
    year_from: str
    damage: str = ""


@dataclass
class _Parts:
    """Pieces of a line that the container runtime cut."""

    pieces: list[str] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    size: int = 0
    first: RawLine | None = None
    count: int = 0


class LogReader:
    """Reads the pieces of one log, oldest first. `servers` holds one server a pod or container named in the lines."""

    def __init__(
        self,
        role: str,
        zone: tzinfo,
        year: int | None,
        emit: Emit,
        bury: Callable[[DeadLetter], None],
    ) -> None:
        self.role = role
        self.servers: dict[str, Server] = {}
        self.files: list[FileReport] = []
        self._zone = zone
        self._year = year
        self._emit = emit
        self._bury = bury
        self._numbering = Numbering(b"", emit)
        self._fallback = ""

    def read(self, files: Sequence[LogFile], told: Callable[[LogFile, int], None]) -> None:
        """Read all files, by the time in which they begin. A file that is damaged further on is read as far as it goes.

        Raises `LogInputError` when a file cannot even be opened.
        """
        begun: list[tuple[int, int, LogFile, int, str]] = []
        for place, file in enumerate(files):
            head = file.head()
            year, year_from = (
                (self._year, "--year")
                if self._year is not None
                else year_of(head, file.modified_seconds(), self._zone)
            )
            begun.append((first_micros(head, year, self._zone), place, file, year, year_from))
            self._fallback = (
                self._fallback or sha256(self.role.encode() + head[:_HEAD_BYTES]).hexdigest()[:12]
            )
        for _, _, file, year, year_from in sorted(begun, key=lambda item: item[:2]):
            self._read_file(file, year, year_from, told)
        for server in self.servers.values():
            server.end()
        self._numbering.end()

    def _read_file(
        self, file: LogFile, year: int, year_from: str, told: Callable[[LogFile, int], None]
    ) -> None:
        report = FileReport(str(file.path), Counts(), year, year_from)
        self.files.append(report)
        known = [server.known().decode() for server in self.servers.values()]
        self._numbering = Numbering(
            as_json([self.role, str(self._zone), year, self._fallback, list(self.servers), known]), self._emit
        )
        pass_ = _Pass(self, report, Clock(self._zone, year))
        try:
            for raw in file.lines(lambda bytes_read: told(file, bytes_read)):
                self._numbering.line(raw.data)
                pass_.line(raw)
        except LogInputError as damage:
            report.damage = str(damage)
        pass_.end()
        for server in self.servers.values():
            server.end_of_file()
        self._numbering.end()
        told(file, file.size_bytes())

    def server(self, source: str) -> Server | None:
        """The server whose lines come from this pod or container; None when there are too many."""
        found = self.servers.get(source)
        if found is None and len(self.servers) < MAX_SERVERS:
            named = sha256(f"{self._fallback}{source}".encode()).hexdigest()[:12]
            found = self.servers[source] = Server(self.role, f"log-{self.role}-{named}", self._add)
        return found

    def bury(self, letter: DeadLetter) -> None:
        """A line that looks like one of ours and can't be read."""
        self._bury(letter)

    def _add(self, draft: Draft) -> None:
        self._numbering.add(draft)


class _Pass:
    """One file being read."""

    def __init__(self, reader: LogReader, report: FileReport, clock: Clock) -> None:
        self._reader = reader
        self._path = report.path
        self._counts = report.counts
        self._clock = clock
        self._parts: dict[str, _Parts] = {}
        self._services: set[str] = set()

    def line(self, raw: RawLine) -> None:
        """The next line."""
        self._counts.lines += 1
        if raw.length > len(raw.data):
            self._overlong(raw)
            return
        text = raw.data.decode("utf-8", "replace")
        if "\0" in text:
            text = text.replace("\0", "")
        unwrapped = unwrap(text, self._services)
        parts = self._parts.get(unwrapped.source)
        if unwrapped.partial or parts is not None:
            self._part(raw, unwrapped, parts)
            return
        self._whole(raw, unwrapped, 1)

    def end(self) -> None:
        """The file is over: what still waits for its other half is judged as it is."""
        for source in list(self._parts):
            self._complete(source, None)

    def _part(self, raw: RawLine, unwrapped: Unwrapped, parts: _Parts | None) -> None:
        if parts is None:
            parts = self._parts[unwrapped.source] = _Parts(first=raw)
        parts.count += 1
        if parts.size <= MAX_LINE_BYTES:
            parts.pieces.append(unwrapped.text)
            parts.raw.append(raw.data)
            parts.size += len(raw.data) + 1
        if not unwrapped.partial:
            self._complete(unwrapped.source, unwrapped.stamp_micros)

    def _complete(self, source: str, stamp_micros: int | None) -> None:
        parts = self._parts.pop(source)
        first = parts.first or RawLine(0, 0, b"", 0)
        whole = RawLine(first.number, first.byte_offset, b"\n".join(parts.raw), parts.size)
        if parts.size > MAX_LINE_BYTES:
            self._overlong(whole, parts.count)
            return
        self._whole(whole, Unwrapped("".join(parts.pieces), stamp_micros, source), parts.count)

    def _overlong(self, raw: RawLine, lines: int = 1) -> None:
        if templates.could_mean(raw.data.decode("utf-8", "replace")):
            self._dead(raw, Reason.TOO_LONG, f"the line has {raw.length:,} bytes", lines)
        else:
            self._counts.meaningless["too_long"] += lines

    def _whole(self, raw: RawLine, unwrapped: Unwrapped, lines: int) -> None:
        """Judge one line, which the runtime may have cut into several."""
        server = self._reader.server(unwrapped.source)
        if server is not None:
            self._judge(server, raw, unwrapped, lines)
        else:
            self._counts.meaningless["too_many_sources"] += lines

    def _judge(self, server: Server, raw: RawLine, unwrapped: Unwrapped, lines: int) -> None:
        text = unwrapped.text
        if not server.waiting and not templates.could_mean(text) and not text.startswith("{"):
            told = level_and_stamp(text)
            if told is not None:
                self._clock.read(told[1], unwrapped.stamp_micros)
                self._counts.meaningless[f"vllm_{told[0].lower()}"] += lines
                return
        kind = ""
        records = split(text)
        for record in records:
            now_micros = self._clock.read(record.stamp, unwrapped.stamp_micros)
            if server.continues(record):
                kind = kind or "traceback"
                continue
            if not templates.could_mean(record.message):
                continue
            try:
                statement = templates.read(record.message)
            except UnreadableStatementError as error:
                self._dead(raw, Reason.NOT_UNDERSTOOD, str(error), lines)
                return
            if statement is None:
                continue
            if "\ufffd" in record.message:
                self._dead(raw, Reason.NOT_UTF8, "a line with ids in it is not UTF-8", lines)
                return
            server.state(statement, record, now_micros)
            other = isinstance(statement, Answer) and not statement.generates
            kind = kind or ("" if other else statement.kind)
        if kind:
            self._counts.understood[kind] += lines
        else:
            self._counts.meaningless[_meaningless(records[0])] += lines

    def _dead(self, raw: RawLine, reason: Reason, message: str, lines: int) -> None:
        self._counts.dead_letters += lines
        original = raw.data[:_KEPT_BYTES] if raw.length > MAX_LINE_BYTES else raw.data
        told = f"line {raw.number:,}: {message}"
        self._reader.bury(DeadLetter(reason, told[:500], self._path, raw.byte_offset, original))


def _meaningless(record: Record) -> str:
    """The kind of a line that says nothing to us."""
    if not record.message.strip() and not record.level:
        return "blank"
    if record.level:
        return f"vllm_{record.level.lower()}"
    if " HTTP/" in record.message:
        return "other_access_line"
    return "uvicorn" if _UVICORN.match(record.message) else "other_text"
