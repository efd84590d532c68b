"""Tells good lines from bad ones: a whole slice at once when all of it is good, line by line when it is not.

The store's own parser is lenient, so nothing reaches it that was not checked here. Good lines go on as the bytes
they came as.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from falseok_collector.events import MAX_LINE_BYTES
from falseok_pipeline.dead_letters import DeadLetter
from falseok_pipeline.envelope_check import decoder, names_allowed
from falseok_pipeline.line_judgement import Line, judge_line
from falseok_pipeline.sources import Batch, Slice


@dataclass(frozen=True)
class Validated:
    """What became of a batch."""

    slices: tuple[Slice, ...] = ()
    """Lines that are all good, as they came."""
    lines: tuple[Line, ...] = ()
    """What is good among lines that are not all good."""
    dead_letters: tuple[DeadLetter, ...] = ()
    events: int = 0
    blank_lines: int = 0
    last_event_micros: int = 0
    first_event_micros: int = 0
    """Earliest wall clock of a good event, 0 when there is none."""

    @property
    def payload(self) -> bytes:
        """All good lines, each ending in a line break."""
        return b"".join([*(piece.data for piece in self.slices), *(line.data + b"\n" for line in self.lines)])

    def located(self) -> list[Line]:
        """All good lines one by one, in the order of `payload`."""
        split = (line for piece in self.slices for line in _split(piece))
        return [*(Line(source, offset, data, 0) for source, offset, data in split), *self.lines]


def validate(batch: Batch) -> Validated:
    """Check every line of a batch. Takes time with the batch's size; never raises for what it finds."""
    good: list[Slice] = []
    lines: list[Line] = []
    dead_letters: list[DeadLetter] = list(batch.dead_letters)
    clocks: list[int] = []
    events = blank_lines = 0
    for piece in batch.slices:
        checked = _check_at_once(piece.data)
        if checked is not None:
            good.append(piece)
            events += checked.events
            clocks += (checked.first_micros, checked.last_micros)
            continue
        for source, offset, data in _split(piece):
            if not data.strip():
                blank_lines += 1
                continue
            judged = judge_line(source, offset, data)
            if isinstance(judged, DeadLetter):
                dead_letters.append(judged)
            else:
                lines.append(judged)
                clocks.append(judged.ts_micros)
    return Validated(
        tuple(good),
        tuple(lines),
        tuple(dead_letters),
        events + len(lines),
        blank_lines,
        last_event_micros=max(clocks, default=0),
        first_event_micros=min(clocks, default=0),
    )


class _Checked(NamedTuple):
    """Of lines that are all good: how many, and their earliest and latest wall clock."""

    events: int
    first_micros: int
    last_micros: int


def _check_at_once(data: bytes) -> _Checked | None:
    """What the lines hold when every one is a good event, else None."""
    if not data.endswith(b"\n") or b"\0" in data or not _is_utf8(data) or _has_long_line(data):
        return None
    try:
        events = decoder.decode_lines(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not events or not names_allowed({event.name for event in events}):
        return None
    # The decoder takes two objects in one line, and passes over blank lines: with as many lines as events, each of which
    # begins an object, there is one in each.
    if not len(events) == data.count(b"\n") == data.count(b"\n{") + data.startswith(b"{"):
        return None
    first = last = events[0].ts
    for event in events:
        if event.id != f"{event.boot}-{event.seq}":
            return None
        if event.ts > last:
            last = event.ts
        elif event.ts < first:
            first = event.ts
    return _Checked(len(events), first, last)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_long_line(data: bytes) -> bool:
    return len(data) > MAX_LINE_BYTES and max(map(len, data.split(b"\n"))) > MAX_LINE_BYTES


def _split(piece: Slice) -> Iterator[tuple[str, int, bytes]]:
    """Source, offset and bytes of every line, without line breaks."""
    offset = piece.byte_offset
    *complete, unended = piece.data.split(b"\n")
    for line in complete:
        yield piece.source, offset, line
        offset += len(line) + 1
    if unended:
        yield piece.source, offset, unended
