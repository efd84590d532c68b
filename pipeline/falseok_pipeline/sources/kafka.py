"""Reads topics as one of a consumer group: messages of many lines each, committed once they are stored.

Delivery is at least once. A consumer that dies, or loses a partition in mid-batch, has its last messages read again by
whoever gets the partition; ids make the repetition invisible. Offsets are committed by hand, after the insert.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.errors import SourceError
from falseok_pipeline.sources import Batch, Slice, SourceState
from falseok_pipeline.sources.batch_building import STANDARD, BatchLimits
from falseok_pipeline.sources.kafka_messages import Decoder, Place, lines_of
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

GROUP = "falseok.pipeline"
WAIT_MILLISECONDS = 200
"""How long a poll waits for a first message."""
CHECK_SECONDS = 5.0
"""After so long without a message the brokers are asked whether they are there."""
JOIN_SECONDS = 30.0
"""A consumer that has no partition after so long shares its group with enough others."""
_CHECK_MILLISECONDS = 2_000
_FETCH_BYTES = 16 * 1024 * 1024
_PARTITION_FETCH_BYTES = 4 * 1024 * 1024
_POLL_MESSAGES = 500
_CLOSE_MILLISECONDS = 5_000
_NOT_OURS_ANY_MORE = (
    CommitFailedError,
    IllegalGenerationError,
    IllegalStateError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)


@dataclass(frozen=True)
class Subscription:
    """What to read, and as whom."""

    decoders: Mapping[str, Decoder]
    """Topics, each with what turns a message into lines."""
    compacted: frozenset[str] = frozenset()
    """Topics in which gaps between offsets are no loss."""
    group: str = GROUP
    """Consumer group; processes of one group share the partitions."""
    instance_id: str = ""
    """Name of this consumer that outlives a restart: it then gets its partitions back at once. Unique in the group."""
    session_timeout_seconds: float = 10.0
    """After so long without a sign of life a consumer's partitions go to the others."""


class KafkaSource:
    """A `Source` over topics. Its consumer joins the group at the first poll."""

    def __init__(
        self,
        client: Mapping[str, Any],
        subscription: Subscription,
        limits: BatchLimits = STANDARD,
        *,
        seconds_now: Callable[[], float] = time.monotonic,
        connect: Callable[..., Any] = KafkaConsumer,
    ) -> None:
        """Connect. `client` holds kafka-python's settings of how to reach and trust the brokers, secrets included.

        Args:
            client: brokers, security protocol, TLS context, SASL.
            subscription: what to read, and as whom.
            limits: of one batch; a batch passes them by one fetch at most.
            seconds_now: a monotonic clock.
            connect: makes the consumer.

        Raises:
            SourceError: the brokers do not answer, refuse us, or lack a topic; the message says what to do.
        """
        self._decoders = dict(subscription.decoders)
        self._limits = limits
        self._compacted = subscription.compacted
        self._servers = ", ".join(client["bootstrap_servers"])
        self._handed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._lost_messages = 0
        self._trouble = ""
        self._seconds_now = seconds_now
        self._opened_at = self._checked_at = seconds_now()
        try:
            self._consumer = connect(
                **client,
                client_id="falseok-pipeline",
                group_id=subscription.group,
                group_instance_id=subscription.instance_id or None,
                session_timeout_ms=int(subscription.session_timeout_seconds * 1_000),
                heartbeat_interval_ms=int(min(3_000, subscription.session_timeout_seconds * 1_000 / 4)),
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                fetch_max_bytes=_FETCH_BYTES,
                max_partition_fetch_bytes=_PARTITION_FETCH_BYTES,
                fetch_max_wait_ms=WAIT_MILLISECONDS,
                reconnect_backoff_max_ms=2_000,
                metrics_enabled=False,
            )
        except (KafkaError, OSError, AssertionError) as error:
            raise SourceError(
                f"Kafka does not answer at {self._servers}: {told(error)}. Check FALSEOK_KAFKA_BOOTSTRAP_SERVERS and "
                "FALSEOK_KAFKA_SECURITY_PROTOCOL, and that the brokers are up."
            ) from error
        try:
            self._require_topics()
            self._consumer.subscribe(list(self._decoders), listener=_Rebalance(self._consumer, self._forget))
        except BaseException:
            self.close()
            raise

    def poll(self) -> Batch | None:
        """See `Source.poll`. Waits up to `WAIT_MILLISECONDS` for a first message, then takes what has arrived."""
        slices: list[Slice] = []
        dead_letters: list[DeadLetter] = []
        positions: dict[str, int] = {}
        size_bytes = lines = 0
        wait = WAIT_MILLISECONDS
        while size_bytes < self._limits.size_bytes and lines < self._limits.lines:
            messages = self._fetch(wait, dead_letters)
            wait = 0
            if not messages:
                break
            for partition, records in messages.items():
                self._note_gap(partition, records[0].offset)
                for record in records:
                    found, refused = self._read(record)
                    dead_letters += refused
                    if found.data:
                        slices.append(found)
                        size_bytes += len(found.data)
                        lines += found.data.count(b"\n")
                self._handed[partition] = records[-1].offset + 1
                positions[_key(partition)] = records[-1].offset + 1
        if not positions and not dead_letters:
            return None
        return Batch(tuple(slices), tuple(dead_letters), positions)

    def commit(self, positions: Mapping[str, int]) -> None:
        """See `Source.commit`. Positions of partitions that were taken from us are somebody else's business by now."""
        offsets = {_partition(key): offset for key, offset in positions.items()}
        if not offsets:
            return
        try:
            self._consumer.commit({at: OffsetAndMetadata(offset, "", -1) for at, offset in offsets.items()})
        except _NOT_OURS_ANY_MORE as error:
            logger.info("commit_refused reason=%s consequence=read_again", type(error).__name__)
        except (KafkaError, AssertionError) as error:
            raise OSError(told(error)) from error
        else:
            self._committed |= offsets

    def state(self) -> SourceState:
        """See `Source.state`. The lag is that of this process's partitions, as of the last fetch."""
        return SourceState(lag_messages=self._lag(), lost_messages=self._lost_messages, trouble=self._trouble)

    def caught_up(self) -> bool:
        """See `Source.caught_up`. Joining a group takes its time; whoever then has no partition has nothing to do."""
        partitions = self._consumer.assignment()
        if not partitions:
            return self._seconds_now() - self._opened_at > JOIN_SECONDS
        try:
            ends = self._consumer.end_offsets(partitions, timeout_ms=_CHECK_MILLISECONDS)
            return all(
                (self._consumer.position(partition, timeout_ms=_CHECK_MILLISECONDS) or 0) >= end
                for partition, end in ends.items()
            )
        except (KafkaError, AssertionError):
            return False

    def close(self) -> None:
        """Leave the group, so that its partitions go on elsewhere at once. Idempotent."""
        try:
            self._consumer.close(autocommit=False, timeout_ms=_CLOSE_MILLISECONDS)
        except (KafkaError, OSError) as error:
            logger.warning("kafka_not_left reason=%s", told(error))

    # Fetching -------------------------------------------------------------------------------------------------

    def _fetch(
        self, wait_milliseconds: int, dead_letters: list[DeadLetter]
    ) -> Mapping[TopicPartition, list[Any]]:
        try:
            messages: Mapping[TopicPartition, list[Any]] = self._consumer.poll(
                timeout_ms=wait_milliseconds, max_records=_POLL_MESSAGES
            )
        except KafkaError as error:
            self._say(told(error), dead_letters)
            return {}
        except Exception as error:  # noqa: BLE001 - a batch that cannot be taken apart raises whatever its codec does
            self._say(f"a batch of messages cannot be read: {told(error)}", dead_letters)
            return {}
        now = self._seconds_now()
        if messages:
            self._trouble, self._checked_at = "", now
        elif now - self._checked_at >= CHECK_SECONDS:
            self._check_brokers()
            self._checked_at = self._seconds_now()
        return messages

    def _check_brokers(self) -> None:
        """Nothing comes: is there nothing, or nobody? A fetch does not tell; asking where the partitions end does."""
        partitions = self._consumer.assignment()
        try:
            if partitions:
                self._ends = self._consumer.end_offsets(partitions, timeout_ms=_CHECK_MILLISECONDS)
            self._trouble = ""
        except (KafkaError, AssertionError) as error:
            trouble = f"no broker of {self._servers} answers ({type(error).__name__})"
            if trouble != self._trouble:
                logger.error(  # noqa: TRY400 - which class it is says all there is
                    "kafka_away servers=%s reason=%s", self._servers, type(error).__name__
                )
            self._trouble = trouble

    def _read(self, record: Any) -> tuple[Slice, list[DeadLetter]]:
        place = str(Place(record.topic, record.partition, record.offset))
        data, refused = self._decoders.get(record.topic, lines_of)(record.value, place)
        return Slice(place, 0, data), list(refused)

    def _say(self, trouble: str, dead_letters: list[DeadLetter]) -> None:
        """Tell of trouble with a fetch; once as a dead letter, for it may be a message that nobody can read."""
        if trouble != self._trouble:
            logger.error("kafka_fetch_failed reason=%s", trouble)
            message = f"messages cannot be fetched: {trouble}"
            dead_letters.append(DeadLetter(Reason.UNREADABLE, message, f"kafka:{self._servers}", 0))
        self._trouble = trouble

    def _note_gap(self, partition: TopicPartition, offset: int) -> None:
        """Count what the topic's retention took away before we came to it."""
        expected = self._handed.get(partition)
        if expected is None:
            expected = self._committed_by_the_group(partition)
        if expected is not None and offset > expected and partition.topic not in self._compacted:
            self._lost_messages += offset - expected
            logger.error("messages_lost partition=%s from=%d to=%d", _key(partition), expected, offset)

    def _committed_by_the_group(self, partition: TopicPartition) -> int | None:
        try:
            committed = self._consumer.committed(partition, timeout_ms=_CLOSE_MILLISECONDS)
        except (KafkaError, AssertionError):
            return None  # the gap, if there is one, is also seen in the sequence numbers of the events
        if committed is not None:
            self._committed.setdefault(partition, int(committed))
        return None if committed is None else int(committed)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions may have been somebody else's in between: where each stands is asked for anew."""
        for partition in partitions:
            self._handed.pop(partition, None)
            self._committed.pop(partition, None)
            self._ends.pop(partition, None)

    def _lag(self) -> int:
        lag = 0
        for partition in self._consumer.assignment():
            end = max(self._consumer.highwater(partition) or 0, self._ends.get(partition, 0))
            lag += max(0, end - self._committed.get(partition, self._handed.get(partition, end)))
        return lag

    def _require_topics(self) -> None:
        try:
            there = self._consumer.topics()
        except (KafkaError, AssertionError) as error:
            raise SourceError(f"Kafka at {self._servers} does not list its topics: {told(error)}.") from error
        missing = sorted(set(self._decoders) - set(there))
        if missing:
            raise SourceError(
                f"Kafka at {self._servers} has no topic {', '.join(missing)}, or does not let us see it. "
                "Make the topics with `falseok topics apply`."
            )


class _Rebalance(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Tells of partitions that come and go. Nothing is committed here: what was handed out is stored and committed
    between two polls, and this is called within one.
    """

    def __init__(self, consumer: Any, changed: Callable[[Iterable[TopicPartition]], None]) -> None:
        self._consumer = consumer
        self._changed = changed

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        # kafka-python 3.0.12: when new metadata of the topics is why a group's leader joins again, and the poll ends
        # before the join does, the assignment that then arrives is never taken up, and nothing is read any more. The
        # flag that this sets stays until the join is complete.
        self._consumer._coordinator.request_rejoin()  # noqa: SLF001 - a live test fails should the name go
        self._changed(revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._changed(assigned)


def told(error: BaseException) -> str:
    """An error of Kafka's in words: its class, and its text where it has one."""
    text = str(error).strip()
    name = type(error).__name__
    return name if not text or text == name else f"{name}: {text}" if name not in text else text


def _key(partition: TopicPartition) -> str:
    return f"{partition.topic}[{partition.partition}]"


def _partition(key: str) -> TopicPartition:
    topic, _, number = key.removesuffix("]").rpartition("[")
    return TopicPartition(topic, int(number))
