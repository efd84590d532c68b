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


@dataclass(frozen=True)
class SourceState:
    """How a source is doing, for people and for rates."""

    lag_bytes: int = 0
    """Bytes that are there and not yet committed, as of the last poll; of a spool."""
    lag_messages: int = 0
    """Messages that are there and not yet committed, as far as is known; of topics."""
    lost_segments: int = 0
    """Segments that vanished before all of them was read, since the start."""
    lost_messages: int = 0
    """Messages that a topic dropped before they were read, since the start."""
    trouble: str = ""
    """Why nothing can be read just now, in one sentence; empty when all is well."""


class Source(Protocol):
    """Gives out lines at least once. One thread calls it."""

    def poll(self) -> Batch | None:
        """The next lines, None when there are none now. Blocks for a fraction of a second at most. Never raises for
        bad input, nor for a source that is away: what cannot be read comes as a dead letter, and `state` tells the rest.

        Polling again before `commit` goes on behind what was handed out.
        """
        ...

    def commit(self, positions: Mapping[str, int]) -> None:
        """Everything up to these positions is durable in the store. Raises `OSError` when it cannot be noted now."""
        ...

    def state(self) -> SourceState:
        """How it is doing now. Does not block."""
        ...

    def caught_up(self) -> bool:
        """Whether a poll that found nothing means that there is nothing now. Blocks for seconds at most."""
        ...

    def close(self) -> None:
        """Let go of files and connections; blocks for seconds at most. Idempotent."""
        ...
