"""A sink that keeps events in the process: for tests and for embedding."""

from falseok_collector.sinks import Sink


class MemorySink(Sink):
    """Keeps the newest `capacity` lines."""

    name = "memory"

    def __init__(self, capacity: int = 100_000) -> None:
        super().__init__()
        self._capacity = capacity
        self.lines: list[bytes] = []
        self.closed = False

    def write(self, lines: list[bytes]) -> None:
        """Keep the lines; the oldest make room and are counted."""
        self.lines.extend(lines)
        self.counts.sent += len(lines)
        surplus = len(self.lines) - self._capacity
        if surplus > 0:
            del self.lines[:surplus]
            self.counts.spilled += surplus

    def close(self) -> None:
        """Nothing to release; the lines stay readable."""
        self.closed = True

    def abandon(self) -> None:
        """Nothing to let go of."""
