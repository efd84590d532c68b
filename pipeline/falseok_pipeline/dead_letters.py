"""Input that could not become an event: why, where it was, and its bytes as they were."""

from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec


class Reason(StrEnum):
    """Why a line, or a file, is a dead letter. Closed: every refusal has exactly one."""

    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    NUL_BYTE = "nul_byte"
    SCHEMA = "schema"
    UNKNOWN_VERSION = "unknown_version"
    ATTRS_NOT_OBJECT = "attrs_not_object"
    ID_MISMATCH = "id_mismatch"
    TOO_LONG = "too_long"
    TOO_DEEP = "too_deep"
    TORN_LINE = "torn_line"
    UNREADABLE = "unreadable"
    REFUSED_BY_STORE = "refused_by_store"
    NOT_UNDERSTOOD = "not_understood"
    """A line of a log that has the words of one of ours and cannot be read."""
    NOT_OTLP = "not_otlp"
    """A message that should be a request of OpenTelemetry log records and is none."""


class DeadLetter(msgspec.Struct, frozen=True):
    """One refusal. The same refusal met again is the same dead letter."""

    reason: Reason
    message: str
    source: str
    """Path of the segment."""
    byte_offset: int
    original: bytes = b""

    @property
    def id(self) -> str:
        """Digest over place and content: what makes a dead letter met twice one row."""
        place = f"{self.reason}\0{self.source}\0{self.byte_offset}\0".encode(errors="surrogateescape")
        return sha256(place + self.original).hexdigest()[:32]

    def to_row(self, now_micros: int) -> dict[str, Any]:
        """The row of table `dead_letters_stored`; `original` must travel as bytes."""
        return {
            "id": self.id,
            "recorded_at": now_micros,
            "reason": str(self.reason),
            "message": _storable(self.message),
            "source": _storable(self.source),
            "byte_offset": self.byte_offset,
            "original": self.original,
            "original_bytes": len(self.original),
        }


def _storable(text: str) -> str:
    """The text as UTF-8 can hold it: names of files may be any bytes."""
    return text.encode(errors="backslashreplace").decode()
