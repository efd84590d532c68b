"""Sinks whose receiver can be taken away."""

import threading

from falseok_collector.sinks.memory import MemorySink


class BlockedSink(MemorySink):
    """A sink whose medium can be taken away: it then keeps nothing of what it is offered."""

    name = "blocked"

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.offers = 0

    def write(self, lines: list[bytes]) -> None:
        """Keep all the lines or none."""
        self.offers += 1
        if self.error is not None:
            raise self.error
        super().write(lines)


class StuckSink(MemorySink):
    """A sink whose `write` does not come back until it is released."""

    name = "stuck"

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.released = threading.Event()

    def write(self, lines: list[bytes]) -> None:
        """Say that it was entered, and wait."""
        self.entered.set()
        self.released.wait(60)
        super().write(lines)
