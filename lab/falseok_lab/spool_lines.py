"""Reads everything a lab's spool holds. Segments are `<boot>-<8 digits>.ndjson`, a line an event."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from falseok_lab.errors import LabError


@dataclass(frozen=True)
class Spooled:
    """The events of a spool in the order of time."""

    events: list[dict[str, Any]]
    torn_lines: int
    """Segments that end in an unfinished line: their writer was killed. Such a line is not among the events."""


def read_spool(spool: Path) -> Spooled:
    """All events of all segments.

    Raises:
        LabError: a finished line is not an event; the message says where.
    """
    events: list[dict[str, Any]] = []
    torn_lines = 0
    for segment in sorted(spool.glob("*.ndjson")):
        *finished, rest = segment.read_bytes().split(b"\n")
        torn_lines += bool(rest)
        events += [_event(line, segment, number) for number, line in enumerate(finished, start=1)]
    events.sort(key=lambda event: (event["ts"], event["boot"], event["seq"]))
    return Spooled(events, torn_lines)


def _event(line: bytes, segment: Path, number: int) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(line)
        event["ts"], event["boot"], event["seq"], event["name"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise LabError(
            f"{segment}, line {number} is not an event: {error!r}. Nothing was recorded."
        ) from error
    return dict(event)
