"""Takes records off the ring, encodes them and hands the lines to the outlets, in a thread of its own.

It writes nothing itself: each sink has its own queue and thread, so that one in trouble delays neither the others
nor the ring. It knows nothing of hooks and engines.
"""

import logging
import threading
import time
from collections.abc import Callable

from falseok_collector.outlet import BATCH_EVENTS, Outlet
from falseok_collector.ring import Record, Ring
from falseok_collector.telling import told_without_text

logger = logging.getLogger("falseok")

DRAIN_SECONDS = 1.2
"""At the end of the process: how long queues may take to become empty, and again to close."""
IDLE_PAUSES = 4
"""Without events the sender wakes up less and less often, down to once in so many flush intervals: waking up costs a
processor 0.1 ms and more, and takes the interpreter from the engine's own thread."""
_PAUSE_SECONDS = 0.002


class Sender:
    """The only consumer of a ring. `flush` and `run` belong to one thread."""

    def __init__(self, ring: Ring, outlets: list[Outlet], encode: Callable[[Record], bytes]) -> None:
        self.outlets = outlets
        self.events_emitted = 0
        self.encode_errors = 0
        self.errors = 0
        """Failures of the sender's own; those of the sinks are in the outlets."""
        self._ring = ring
        self._encode = encode

    @property
    def sink_errors(self) -> int:
        """Whatever went wrong between the ring and the receivers, and is repeated."""
        return self.errors + sum(outlet.errors + outlet.sink.counts.errors for outlet in self.outlets)

    def run(
        self,
        stopping: threading.Event,
        *,
        flush_seconds: float,
        heartbeat: Callable[[], None],
        heartbeat_seconds: float,
    ) -> None:
        """Beat and flush until `stopping` is set, then flush, beat with the final counts, and close the sinks.

        While events come they are handed over every `flush_seconds`; the first one after a silence may wait for up to
        `IDLE_PAUSES` times as long. After `stopping` it takes at most about twice `DRAIN_SECONDS`, whatever the sinks do.
        """
        for outlet in self.outlets:
            outlet.start()
        next_heartbeat, pause = 0.0, flush_seconds
        while not stopping.wait(pause):
            now = time.monotonic()
            pause = flush_seconds if len(self._ring) else min(pause * 2, flush_seconds * IDLE_PAUSES)
            if now >= next_heartbeat:
                next_heartbeat = now + heartbeat_seconds
                self._guarded(heartbeat)
            self._guarded(self.flush)
            pause = max(min(pause, next_heartbeat - now), flush_seconds)
        deadline = time.monotonic() + DRAIN_SECONDS
        for outlet in self.outlets:
            self._guarded(outlet.hurry)
        self._drain(deadline)
        self._guarded(heartbeat)
        self._drain(deadline)
        for outlet in self.outlets:
            outlet.stop()
        deadline = time.monotonic() + DRAIN_SECONDS
        for outlet in self.outlets:
            outlet.join(deadline - time.monotonic())

    def flush(self) -> None:
        """Hand over what is on the ring; when no outlet has room, the ring keeps the rest."""
        while len(self._ring):
            room = max((outlet.room() for outlet in self.outlets), default=BATCH_EVENTS)
            if room <= 0:
                return
            records = self._ring.take(min(room, BATCH_EVENTS))
            lines = [line for record in records if (line := self._line(record))]
            self.events_emitted += len(lines)
            for outlet in self.outlets:
                outlet.offer(lines)

    def _drain(self, deadline: float) -> None:
        self._guarded(self.flush)
        while time.monotonic() < deadline and not all(outlet.settled() for outlet in self.outlets):
            time.sleep(_PAUSE_SECONDS)
            self._guarded(self.flush)

    def _line(self, record: Record) -> bytes:
        try:
            return self._encode(record)
        except Exception as error:  # noqa: BLE001 - one event that cannot be encoded must not cost the others
            self.encode_errors += 1
            if self.encode_errors == 1:
                logger.warning(
                    "falseok: an event could not be encoded and is lost: %s", told_without_text(error)
                )
            return b""

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - nothing may end the only thread that sends
            self.errors += 1
            if self.errors == 1:
                logger.warning("falseok: the sender failed and goes on: %s", told_without_text(error))
