"""Numbers events so that the same lines always give the same ids, whatever the file is called or packed as.

A file is cut into chunks of lines. The `boot` of the events of a chunk is a digest of all lines up to its end and of
what was known when the file began, so a log that has grown keeps the ids of all chunks but its last.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from falseok_collector.attributes import Attributes
from falseok_collector.events import Envelope, Origin, encode

CHUNK_LINES = 50_000
CHUNK_EVENTS = 2_000
_DIGEST_CHARACTERS = 32

Emit = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no number yet."""

    ts: int
    attributes: Attributes
    fields: dict[str, Any]


class Numbering:
    """Takes the lines of one file and the events they gave, in order; hands out numbered events."""

    def __init__(self, known: bytes, emit: Emit) -> None:
        """`known` is everything beside the lines that the events depend on."""
        self._digest = sha256(known)
        self._emit = emit
        self._drafts: list[Draft] = []
        self._lines = 0

    def line(self, data: bytes) -> None:
        """The next line, as it is in the file. Call it before the events of the line are added."""
        if self._lines >= CHUNK_LINES or len(self._drafts) >= CHUNK_EVENTS:
            self.end()
        self._lines += 1
        self._digest.update(data)
        self._digest.update(b"\n")

    def add(self, draft: Draft) -> None:
        """An event of the lines so far."""
        self._drafts.append(draft)

    def end(self) -> None:
        """The chunk is complete: number its events and hand them out."""
        self._lines = 0
        drafts, self._drafts = self._drafts, []
        number(drafts, self._digest.digest(), self._emit)


def number(drafts: list[Draft], content: bytes, emit: Emit) -> None:
    """Number events that depend on nothing but `content`, and hand them out."""
    boot = f"log-{sha256(content).hexdigest()[:_DIGEST_CHARACTERS]}"
    for seq, draft in enumerate(drafts, start=1):
        envelope = Envelope(
            v=1,
            id=f"{boot}-{seq}",
            ts=draft.ts,
            mono=0,
            boot=boot,
            seq=seq,
            name=draft.attributes.event_name,
            origin=Origin.LOG,
            **draft.fields,
        )
        emit(encode(envelope, draft.attributes))
