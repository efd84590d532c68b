"""The Kafka sink: confirmed batches while the brokers are there, a spool of its own while they are away.

Every batch is sent and confirmed before the next, so that order holds for every key. What is not confirmed goes to
the backlog, and so does everything after it until the backlog is drained. Delivery is at least once; ids make the
repeated ones recognisable.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from falseok_collector.settings import Settings
from falseok_collector.sinks import Condition, Sink
from falseok_collector.sinks.backlog import Backlog
from falseok_collector.sinks.kafka_client import KafkaClient, is_too_large
from falseok_collector.sinks.kafka_messages import Message, halves, messages_of, unsent_lines
from falseok_collector.telling import told_without_text

logger = logging.getLogger("falseok")

RETRY_SECONDS = 0.5
RETRY_SECONDS_MAX = 5.0
ADOPT_SECONDS = 10.0
"""How often a sink looks for what dead processes of this host left."""
_HURRIED_SECONDS = 0.7
_PAUSE_SECONDS = 0.05
_UNCONFIRMED_MESSAGES = 64


class KafkaSink(Sink):
    """Sends events to Kafka from the outlet's thread; see the module."""

    name = "kafka"

    def __init__(
        self, settings: Settings, boot: str, *, connect: Callable[[Settings], KafkaClient] = KafkaClient
    ) -> None:
        super().__init__()
        self._settings = settings
        self._connect = connect
        self._client: KafkaClient | None = None
        self._backlog = Backlog(
            Path(settings.spool_dir) / self.name,
            boot,
            max_bytes=settings.spool_max_bytes,
            segment_bytes=settings.spool_segment_bytes,
        )
        self._batch: list[bytes] = []
        self._unsent: list[bytes] = []
        self._retry_at = 0.0
        self._delay = 0.0
        self._adopt_at = 0.0
        self._orphans = False
        self._hurried = threading.Event()
        self._hurried_until = math.inf

    def write(self, lines: list[bytes]) -> None:
        """Deliver the lines, or keep them in the backlog; what of them was confirmed is not sent again with them.

        Raises `OSError` when even that fails.
        """
        if lines is not self._batch:
            self._batch, self._unsent = lines, lines
        if not self._backlog.waiting and self._connected():
            self._unsent = self._deliver(self._unsent)
        if self._unsent:
            self._backlog.write(self._unsent)
        self._batch, self._unsent = [], []
        self._tell()

    def maintain(self) -> float:
        """Connect again when it is time, and drain one piece of what waits."""
        if self._hurried.is_set():
            return math.inf
        now = time.monotonic()
        if now >= self._adopt_at:
            self._adopt_at = now + ADOPT_SECONDS
            self._orphans = self._backlog.adopt()
        if not self._backlog.waiting and not self._orphans:
            return self._adopt_at - now
        if not self._connected():
            self._tell()
            return max(self._retry_at - now, 0.0)
        return self._drain()

    def hurry(self) -> None:
        """See `Sink.hurry`. What waits stays in the backlog for the next process."""
        self._hurried_until = time.monotonic() + _HURRIED_SECONDS
        self._hurried.set()

    def close(self) -> None:
        """End the client's thread; what waits stays where it is."""
        self._disconnect()
        self._backlog.close()

    def abandon(self) -> None:
        """See `Sink.abandon`."""
        if self._client is not None:
            self._client.abandon()
            self._client = None
        self._backlog.abandon()

    # Sending ------------------------------------------------------------------------------------------------

    def _drain(self) -> float:
        self.counts.condition = Condition.DRAINING
        lines = self._backlog.next_lines()
        self._backlog.sent(lines[: len(lines) - len(self._deliver(lines))])
        if not lines:
            self._orphans = self._backlog.adopt()
        self._tell()
        return 0.0 if lines else _PAUSE_SECONDS

    def _deliver(self, lines: list[bytes]) -> list[bytes]:
        """Send the lines; those that are not confirmed, in order, from the first such on."""
        settings = self._settings
        pending = deque(messages_of(lines, settings.kafka_topic, settings.kafka_engines_topic))
        alone = 0
        while pending and self._client is not None:
            part = list(islice(pending, 1 if alone else _UNCONFIRMED_MESSAGES))
            confirmed, failure = self._client.send(part, self._remaining)
            for _ in range(confirmed):
                message = pending.popleft()
                self.counts.sent += 0 if message.is_copy else len(message.lines)
            alone = max(alone - confirmed, 0)
            if failure is None:
                continue
            if not is_too_large(failure):
                self._away(failure)
            else:
                alone = max(alone - 1, 0) + self._set_aside(failure, pending, part)
        return unsent_lines(pending)

    def _set_aside(self, failure: Exception, pending: deque[Message], part: list[Message]) -> int:
        """A message was refused for its size; how many of the next have to be sent one by one.

        The refusal ends the client, and with it whatever else was under way: only a message that was sent alone is
        known to be at fault. It is halved until the one event that is too large is found, which is lost.
        """
        self._disconnect()
        self._connected()
        if len(part) > 1:
            return len(part)
        refused = pending.popleft()
        if len(refused.lines) > 1:
            pending.extendleft(reversed(halves(refused)))
            return 2
        self._failed(failure)
        if not refused.is_copy:
            self.counts.lost += 1
            logger.warning("falseok: Kafka refuses an event of %d bytes as too large", len(refused.lines[0]))
        return 0

    def _remaining(self, deadline: float) -> float:
        return min(deadline, self._hurried_until) - time.monotonic()

    # Connecting ---------------------------------------------------------------------------------------------

    def _connected(self) -> bool:
        if self._client is not None:
            return True
        if time.monotonic() < self._retry_at or self._hurried.is_set():
            return False
        try:
            self._client = self._connect(self._settings)
        except Exception as error:  # noqa: BLE001 - kafka-python raises many kinds, and the brokers may be anything
            self._away(error)
            return False
        if self._delay:
            logger.warning("falseok: Kafka is back, what waits in %s is sent", self._backlog.directory)
        self._delay = 0.0
        return True

    def _away(self, error: Exception) -> None:
        self._failed(error)
        self._disconnect()
        if not self._delay:
            logger.warning(
                "falseok: Kafka does not take events, they go to %s: %s",
                self._backlog.directory,
                told_without_text(error),
            )
        self._delay = min(max(self._delay * 2, RETRY_SECONDS), RETRY_SECONDS_MAX)
        self._retry_at = time.monotonic() + self._delay

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _failed(self, error: Exception) -> None:
        self.counts.errors += 1
        self.counts.last_error = type(error).__name__

    def _tell(self) -> None:
        counts, backlog = self.counts, self._backlog
        counts.waiting = backlog.waiting
        counts.spilled, counts.segments_dropped = backlog.spilled
        counts.lost += backlog.take_torn()
        if not counts.waiting and not self._delay:
            counts.condition = Condition.DRAINING if self._orphans else Condition.OK
        elif self._client is None:
            counts.condition = Condition.SPOOLING
        else:
            counts.condition = Condition.DRAINING
