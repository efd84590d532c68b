"""Puts one batch together, up to its limits."""

from dataclasses import dataclass, field

from falseok_pipeline.dead_letters import DeadLetter
from falseok_pipeline.sources import Batch, Slice


@dataclass(frozen=True)
class BatchLimits:
    """How much one poll hands out at most."""

    size_bytes: int = 16 * 1024 * 1024
    lines: int = 50_000
    share_bytes: int = 64 * 1024
    """Least that one process gets of a batch, however many there are."""


STANDARD = BatchLimits()


@dataclass
class BatchBuilder:
    """A batch in the making. `limits` are passed by one slice at most."""

    limits: BatchLimits
    size_bytes: int = 0
    _lines: int = 0
    _slices: list[Slice] = field(default_factory=list)
    _dead_letters: list[DeadLetter] = field(default_factory=list)
    _positions: dict[str, int] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Nothing more should be added."""
        return self.size_bytes >= self.limits.size_bytes or self._lines >= self.limits.lines

    def add(self, piece: Slice) -> None:
        """Take lines in; they are then part of what is committed with the batch."""
        self._slices.append(piece)
        self.size_bytes += len(piece.data)
        self._lines += piece.data.count(b"\n")
        self._positions[piece.source] = piece.end

    def add_dead_letter(self, letter: DeadLetter, position: int | None = None) -> None:
        """Take a refusal in; with `position`, everything before it counts as dealt with."""
        self._dead_letters.append(letter)
        if position is not None:
            self._positions[letter.source] = position

    def build(self) -> Batch | None:
        """The batch, None when there is nothing in it."""
        if not self._slices and not self._dead_letters:
            return None
        return Batch(tuple(self._slices), tuple(self._dead_letters), dict(self._positions))
