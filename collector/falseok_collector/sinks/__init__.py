"""Where the sender thread writes encoded events."""

from typing import Protocol


class Sink(Protocol):
    """Receives batches of encoded events. Only the sender thread calls it, so it may block."""

    name: str

    def write(self, lines: list[bytes]) -> None:
        """Keep all the lines, or raise `OSError` having kept none of them; the same lines are offered again."""
        ...

    def losses(self) -> tuple[int, int]:
        """Events and segments lost on purpose (past a bound) since the start."""
        ...

    def close(self) -> None:
        """Flush and release everything. Called once, at the end of the process."""
        ...

    def abandon(self) -> None:
        """Let go of everything without writing: this process is a fork of the one that owns the sink."""
        ...
