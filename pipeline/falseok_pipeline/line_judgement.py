"""Judges one line: a good line as it is, a good line with unknown fields put in their place, or a dead letter.

The slow path: it runs for batches in which something is wrong.
"""

from dataclasses import dataclass

import msgspec

from falseok_collector.events import CONTRACT_VERSION, ENVELOPE_FIELDS, MAX_LINE_BYTES
from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.envelope_check import decoder, id_of, names_allowed

_MESSAGE_CHARACTERS = 500
_NOT_AN_OBJECT = "the line is not a JSON object"
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class Line:
    """A good line, without its line break, and where it came from."""

    source: str
    byte_offset: int
    data: bytes
    ts_micros: int


class _RefusedError(Exception):
    """Carries reason and message of a dead letter."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def judge_line(source: str, byte_offset: int, line: bytes) -> Line | DeadLetter:
    """What becomes of one line that is not blank."""
    try:
        _check_bytes(line)
        data, ts_micros = _check_event(line)
    except _RefusedError as refused:
        return DeadLetter(refused.reason, str(refused)[:_MESSAGE_CHARACTERS], source, byte_offset, line)
    return Line(source, byte_offset, data, ts_micros)


def _check_bytes(line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise _RefusedError(Reason.TOO_LONG, f"the line is longer than {MAX_LINE_BYTES} bytes")
    if b"\0" in line:
        raise _RefusedError(Reason.NUL_BYTE, f"NUL byte at {line.index(0)}")
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise _RefusedError(Reason.NOT_UTF8, f"not UTF-8 at byte {error.start}: {error.reason}") from error


def _check_event(line: bytes) -> tuple[bytes, int]:
    """The line to store and its wall clock, or `_Refused`."""
    try:
        return line, _decode(line)
    except msgspec.ValidationError as error:
        # The schema's complaint may come before bad JSON further on, which only reading all of the line meets.
        try:
            moved = _move_unknown_fields(line, error)
            return moved, _decode(moved)
        except msgspec.ValidationError as still:
            raise _RefusedError(Reason.SCHEMA, str(still)) from still
        except msgspec.DecodeError as broken:
            raise _RefusedError(Reason.NOT_JSON, str(broken)) from broken
        except RecursionError as deep:
            raise _RefusedError(Reason.TOO_DEEP, "nested too deeply") from deep
        except (ValueError, OverflowError) as number:
            raise _RefusedError(Reason.SCHEMA, f"a value cannot be read: {number}") from number


def _decode(line: bytes) -> int:
    """Wall clock of a valid event. Raises `msgspec.ValidationError` for what the schema refuses."""
    try:
        event = decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise _RefusedError(Reason.NOT_JSON, str(error)) from error
    except RecursionError as error:
        raise _RefusedError(Reason.TOO_DEEP, "nested too deeply") from error
    if event.id != id_of(event):
        raise _RefusedError(Reason.ID_MISMATCH, f"id is {event.id!r}, boot and seq say {id_of(event)!r}")
    if not names_allowed([event.name]):
        raise _RefusedError(Reason.SCHEMA, f"{event.name!r} is not an event name - at `$.name`")
    return event.ts


def _move_unknown_fields(line: bytes, error: msgspec.ValidationError) -> bytes:
    """The same event with unknown top-level fields inside `attrs`, byte for byte; else why it is refused."""
    fields = _top_level(line)
    version = msgspec.json.decode(fields.get("v", msgspec.Raw(b"null")))
    if isinstance(version, int) and not isinstance(version, bool) and version > CONTRACT_VERSION:
        raise _RefusedError(
            Reason.UNKNOWN_VERSION,
            f"contract version {version}; this release reads up to {CONTRACT_VERSION}: upgrade falseok",
        )
    attrs = bytes(fields.get("attrs", msgspec.Raw(b"{}"))).strip()
    if not attrs.startswith(b"{"):
        raise _RefusedError(Reason.ATTRS_NOT_OBJECT, "attrs is not a JSON object")
    unknown = {name: value for name, value in fields.items() if name not in ENVELOPE_FIELDS}
    if not unknown:
        raise _RefusedError(Reason.SCHEMA, str(error)) from error
    known = {name: value for name, value in fields.items() if name in ENVELOPE_FIELDS}
    known["attrs"] = _extended(attrs, unknown)
    return msgspec.json.encode(known)


def _top_level(line: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _fields.decode(line)
    except msgspec.ValidationError as error:
        raise _RefusedError(Reason.SCHEMA, _NOT_AN_OBJECT) from error


def _extended(attrs: bytes, unknown: dict[str, msgspec.Raw]) -> msgspec.Raw:
    """The attributes with further fields; one whose name is taken gets the prefix `envelope_`."""
    taken = _fields.decode(attrs)
    for name, value in unknown.items():
        free = name
        while free in taken:
            free = f"envelope_{free}"
        taken[free] = value
    return msgspec.Raw(msgspec.json.encode(taken))
