"""Takes records off the ring, encodes them and writes them to the sinks, in a thread of its own.

Nothing that goes wrong here ends the thread: what cannot be written waits and is offered again, what cannot be
encoded is counted as lost. It knows nothing of hooks and engines.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from falseok_collector.ring import Record, Ring
from falseok_collector.sinks import Sink

logger = logging.getLogger("falseok")

BATCH_EVENTS = 2_000
"""Events taken off the ring at once."""
RETRY_SECONDS_MAX = 5.0
"""Longest pause before a sink in trouble is tried again."""


class Sender:
    """The only consumer of a ring. `flush` and `run` belong to one thread."""

    def __init__(
        self, ring: Ring, sinks: list[Sink], encode: Callable[[Record], bytes], retry_seconds: float
    ) -> None:
        self.sinks = sinks
        self.events_emitted = 0
        self.encode_errors = 0
        self.sink_errors = 0
        self._ring = ring
        self._encode = encode
        self._retry_seconds = retry_seconds
        self._pending: dict[str, list[bytes]] = {}
        self._retry_at: dict[str, tuple[float, float]] = {}

    def run(
        self,
        stopping: threading.Event,
        *,
        flush_seconds: float,
        heartbeat: Callable[[], None],
        heartbeat_seconds: float,
    ) -> None:
        """Beat and flush until `stopping` is set, then flush, beat with the final counts, and close the sinks."""
        next_heartbeat = 0.0
        while not stopping.wait(flush_seconds):
            now = time.monotonic()
            if now >= next_heartbeat:
                next_heartbeat = now + heartbeat_seconds
                self._guarded(heartbeat)
            self._guarded(partial(self.flush_all, now))
        last_flush = partial(self.flush_all, time.monotonic(), final=True)
        for step in (last_flush, heartbeat, last_flush):
            self._guarded(step)
        for sink in self.sinks:
            self._guarded(sink.close)

    def flush_all(self, now: float, *, final: bool = False) -> None:
        """Write until the ring is empty or a sink is in trouble."""
        while self.flush(now, final=final) and len(self._ring):
            pass

    def flush(self, now: float, *, final: bool = False) -> bool:
        """Write one batch to every sink; False when a sink is in trouble, so that the ring keeps the rest.

        `now` is monotonic, in seconds. A `final` flush tries a sink in trouble at once.
        """
        if not any(self._pending.values()):
            lines = [line for record in self._ring.take(BATCH_EVENTS) if (line := self._line(record))]
            self.events_emitted += len(lines)
            self._pending = {sink.name: lines for sink in self.sinks}
        outcomes = [self._offer(sink, now, final=final) for sink in self.sinks]
        return all(outcomes)

    def _line(self, record: Record) -> bytes:
        try:
            return self._encode(record)
        except Exception:
            self.encode_errors += 1
            if self.encode_errors == 1:
                logger.warning("falseok: an event could not be encoded and is lost", exc_info=True)
            return b""

    def _offer(self, sink: Sink, now: float, *, final: bool) -> bool:
        lines = self._pending.get(sink.name)
        if not lines:
            return True
        retry_at, delay = self._retry_at.get(sink.name, (0.0, 0.0))
        if now < retry_at and not final:
            return False
        try:
            sink.write(lines)
        except OSError as error:
            self._in_trouble(sink, error, now, delay)
            return False
        if delay:
            logger.warning("falseok: the %s sink writes again", sink.name)
        self._retry_at.pop(sink.name, None)
        self._pending[sink.name] = []
        return True

    def _in_trouble(self, sink: Sink, error: OSError, now: float, delay: float) -> None:
        self.sink_errors += 1
        if not delay:
            logger.warning("falseok: the %s sink cannot write, events wait in memory: %s", sink.name, error)
        delay = min(max(delay * 2, self._retry_seconds), RETRY_SECONDS_MAX)
        self._retry_at[sink.name] = (now + delay, delay)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            self.sink_errors += 1
            if self.sink_errors == 1:
                logger.warning("falseok: the sender failed and goes on", exc_info=True)
