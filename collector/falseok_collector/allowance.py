"""What the text features may cost a serving process: memory for texts that wait, and a share of one processor."""

import threading
import time
from collections.abc import Callable

TEXT_BYTES = 32 * 1024**2
"""Texts of finished answers that wait for the sender thread."""
PROCESSOR_SHARE = 0.05
"""Of the sender thread's time, for it shares the interpreter with the event loop."""
_SAVED_SECONDS = 0.5
"""How much unused time may be spent at once."""


class ByteAllowance:
    """Bytes that may be held at a time, counted from several threads."""

    def __init__(self, limit: int = TEXT_BYTES) -> None:
        self._limit = limit
        # Re-entrant: a collection of garbage inside `take` may let go of an answer in the same thread.
        self._lock = threading.RLock()
        self.held = 0

    def take(self, size: int) -> bool:
        """Hold so many bytes more, or say that there is no room."""
        with self._lock:
            if self.held + size > self._limit:
                return False
            self.held += size
            return True

    def give(self, size: int) -> None:
        """Let go of bytes that were taken."""
        with self._lock:
            self.held -= size


class TimeAllowance:
    """Seconds of work that may be done: a share of the time that passes. One thread uses it."""

    def __init__(
        self, share: float = PROCESSOR_SHARE, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._share = share
        self._clock = clock
        self._last = clock()
        self._seconds = _SAVED_SECONDS

    def left(self) -> bool:
        """Whether work may be done now."""
        now = self._clock()
        self._seconds = min(self._seconds + (now - self._last) * self._share, _SAVED_SECONDS)
        self._last = now
        return self._seconds > 0

    def spend(self, work: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Do the work and count how long it took."""
        begin = self._clock()
        try:
            return work()
        finally:
            self._seconds -= self._clock() - begin
