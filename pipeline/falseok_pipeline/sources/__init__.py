"""Where lines come from: what every source gives the pipeline, and how it is told what was stored.

A source knows nothing of events or of the store; it hands out complete lines with their places.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from falseok_pipeline.dead_letters import DeadLetter


@dataclass(frozen=True)
class Slice:
    """Complete lines, each ending in a line break, that follow one another in one place."""

    source: str
    byte_offset: int
    data: bytes

    @property
    def end(self) -> int:
        """Offset of the byte behind the last one."""
        return self.byte_offset + len(self.data)


@dataclass(frozen=True)
class Batch:
    """What one poll found. `positions` say what to commit once all of it is stored."""

    slices: tuple[Slice, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    positions: Mapping[str, int] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of all lines."""
        return sum(len(piece.data) for piece in self.slices)


class Source(Protocol):
    """Gives out lines at least once. One thread calls it."""

    def poll(self) -> Batch | None:
        """The next lines, None when there are none now. Does not block. Never raises for bad input:
        what cannot be read comes as a dead letter.

        Polling again before `commit` goes on behind what was handed out.
        """
        ...

    def commit(self, positions: Mapping[str, int]) -> None:
        """Everything up to these positions is durable in the store. Raises `OSError` when it cannot be noted."""
        ...

    def lag_bytes(self) -> int:
        """Bytes that are there and not yet committed, as of the last poll."""
        ...

    def lost_segments(self) -> int:
        """Segments that vanished before all of them was read, since the start."""
        ...
