"""One sink with its own bounded queue and its own thread, so that a sink in trouble holds up nobody else.

The sender thread hands lines over in constant time. Nothing that goes wrong in the sink ends the thread: what is
refused waits and is offered again, what does not fit is counted as lost. Trouble of the outside world (`OSError`) may
last for ever; any other error is a defect that will not pass, of the sink or of a line, and costs the lines at fault.
"""

import logging
import math
import threading
import time
from collections import deque

from falseok_collector.attributes import SinkState
from falseok_collector.sinks import Condition, Sink
from falseok_collector.telling import told_without_text
from falseok_collector.thread_name import show_thread_name

logger = logging.getLogger("falseok")

BATCH_EVENTS = 2_000
"""Events taken off the ring, and offered to a sink, at once."""
QUEUE_BYTES = 32 * 1024**2
"""Most bytes of lines that wait for one sink; with the events' own bound the smaller one counts."""
RETRY_SECONDS_MAX = 5.0
"""Longest pause before a sink in trouble is tried again."""
DEFECT_ATTEMPTS = 3
"""How often a batch is offered to a sink that raises anything but `OSError`, before it is taken apart."""
_HURRIED_SECONDS = 0.05


class Outlet:
    """Queue, retries and counts of one sink.

    `offer`, `room`, `settled`, `state` and the end belong to the sender thread; `step` to the outlet's own.
    """

    def __init__(self, sink: Sink, *, queue_events: int, retry_seconds: float) -> None:
        self.sink = sink
        self.refused = 0
        """Events lost because the queue was full, or because the sink has no way to take them."""
        self.errors = 0
        """Writes the sink refused."""
        self._queue_events = queue_events
        self._retry_seconds = retry_seconds
        self._queue: deque[list[bytes]] = deque()
        self._events = 0
        self._bytes = 0
        self._batch: list[bytes] = []
        self._retry_at = 0.0
        self._delay = 0.0
        self._defects = 0
        self._last_error = ""
        self._wanted = threading.Condition()
        self._hurried = False
        self._failed_hurried = False
        self._stopping = False
        self._thread: threading.Thread | None = None

    # The sender's side --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it takes the processors of the calling thread."""
        self._thread = threading.Thread(target=self._run, name=f"falseok-{self.sink.name}", daemon=True)
        self._thread.start()

    def room(self) -> int:
        """Events that still fit."""
        return self._queue_events - self._events if self._bytes < QUEUE_BYTES else 0

    def offer(self, lines: list[bytes]) -> None:
        """Queue the lines that fit, in order; the rest is lost for this sink and counted. Never blocks for long."""
        fitting = lines[: max(self.room(), 0)]
        self.refused += len(lines) - len(fitting)
        if fitting:
            with self._wanted:
                self._queue.append(fitting)
                self._events += len(fitting)
                self._bytes += sum(map(len, fitting))
                self._wanted.notify()

    def hurry(self) -> None:
        """The process ends: try at once what would have been tried later."""
        with self._wanted:
            self._hurried = True
            self._wanted.notify()
        self.sink.hurry()

    def settled(self) -> bool:
        """Whether waiting longer is no use: everything is written, or the sink failed although hurried."""
        return self._failed_hurried or not self._events

    def stop(self) -> None:
        """Let the thread write what is queued, close the sink and end."""
        with self._wanted:
            self._stopping = True
            self._wanted.notify()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, for so long at most."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))

    def state(self) -> SinkState:
        """What the heartbeat tells about the sink."""
        counts = self.sink.counts
        return SinkState(
            name=self.sink.name,
            state=str(Condition.RETRYING if self._delay else counts.condition),
            events_sent=counts.sent,
            events_waiting=self._events + counts.waiting,
            events_lost=self.refused + counts.lost + counts.spilled,
            errors=self.errors + counts.errors,
            last_error=counts.last_error if counts.last_error and not self._delay else self._last_error,
        )

    # The outlet's own thread --------------------------------------------------------------------------------

    def step(self, now: float) -> float:
        """Offer one batch to the sink, or let it do its upkeep; seconds until the next step is due.

        `now` is monotonic, in seconds.
        """
        if not self._batch:
            self._batch = self._take()
        if self._batch:
            if now < self._retry_at and not self._hurried:
                return self._retry_at - now
            if not self._write(now):
                return self._delay
        pause = self._upkeep()
        return 0.0 if self._events else pause

    def _run(self) -> None:
        show_thread_name()
        while True:
            pause = self.step(time.monotonic())
            with self._wanted:
                if self._stopping and self.settled():
                    break
                if self._hurried:
                    pause = min(pause, _HURRIED_SECONDS)
                if pause > 0 and not (self._queue and not self._batch):
                    self._wanted.wait(None if pause == math.inf else pause)
        try:
            self.sink.close()
        except Exception as error:  # noqa: BLE001 - nothing a sink raises may end its thread
            self._failed(error)

    def _take(self) -> list[bytes]:
        taken: list[bytes] = []
        with self._wanted:
            while self._queue and len(taken) < BATCH_EVENTS:
                taken += self._queue.popleft()
        return taken

    def _write(self, now: float) -> bool:
        try:
            self.sink.write(self._batch)
        except Exception as error:  # noqa: BLE001 - nothing a sink raises may end its thread
            self._in_trouble(error, now)
            self._defects = 0 if isinstance(error, OSError) else self._defects + 1
            if self._defects >= DEFECT_ATTEMPTS:
                self._take_apart()
            return False
        if self._delay:
            logger.warning("falseok: the %s sink writes again", self.sink.name)
        self._retry_at = self._delay = 0.0
        self._defects = 0
        self._failed_hurried = False
        self._done_with_batch()
        return True

    def _done_with_batch(self) -> None:
        with self._wanted:
            self._events -= len(self._batch)
            self._bytes -= sum(map(len, self._batch))
        self._batch = []

    def _take_apart(self) -> None:
        """Go on with half of the batch, until the line is found that the sink has no way to take; that one is lost."""
        if len(self._batch) > 1:
            middle = len(self._batch) // 2
            with self._wanted:
                self._queue.appendleft(self._batch[middle:])
            self._batch = self._batch[:middle]
            return
        self.refused += 1
        self._defects = 0
        self._done_with_batch()

    def _in_trouble(self, error: Exception, now: float) -> None:
        self._failed(error)
        if not self._delay:
            logger.warning(
                "falseok: the %s sink cannot write, events wait in memory: %s",
                self.sink.name,
                told_without_text(error),
            )
        delay = min(max(self._delay * 2, self._retry_seconds), RETRY_SECONDS_MAX)
        self._failed_hurried = self._hurried
        self._delay = _HURRIED_SECONDS if self._hurried else delay
        self._retry_at = now + self._delay

    def _upkeep(self) -> float:
        try:
            return self.sink.maintain()
        except Exception as error:  # noqa: BLE001 - nothing a sink raises may end its thread
            self._failed(error)
            return RETRY_SECONDS_MAX

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self._last_error = type(error).__name__
