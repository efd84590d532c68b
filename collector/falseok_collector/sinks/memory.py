"""A sink that keeps events in the process: for tests and for embedding."""


class MemorySink:
    """Keeps the newest `capacity` lines."""

    name = "memory"

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._lost = 0
        self.lines: list[bytes] = []
        self.closed = False

    def write(self, lines: list[bytes]) -> None:
        """Keep the lines; the oldest make room and are counted as lost."""
        self.lines.extend(lines)
        surplus = len(self.lines) - self._capacity
        if surplus > 0:
            del self.lines[:surplus]
            self._lost += surplus

    def losses(self) -> tuple[int, int]:
        """Events that made room, and no segments."""
        return self._lost, 0

    def close(self) -> None:
        """Nothing to release; the lines stay readable."""
        self.closed = True

    def abandon(self) -> None:
        """Nothing to let go of."""
