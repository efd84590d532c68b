"""Dead letters as messages of a topic, for those who watch or mend them there; the store has them all the same.

The value is the original bytes. Headers say why (`reason`, `message`) and where it was (`topic`, `partition`, `offset`
of the message, `byte_offset` within it); the key is the dead letter's id, the same however often it is met.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka.errors import KafkaError, MessageSizeTooLargeError

from falseok_pipeline.dead_letters import DeadLetter
from falseok_pipeline.errors import StoreUnavailableError
from falseok_pipeline.sources.kafka_messages import parse_place
from falseok_pipeline.writer import EventSink
from kafka import KafkaProducer

logger = logging.getLogger(__name__)

TOPIC = "falseok.deadletters.v1"
LONGEST_BYTES = 512 * 1024
"""What a message holds of an original at most: brokers take 1 MiB unless told otherwise. The header `original_bytes` tells
the whole size, and the store has all of it."""
_CONFIRM_SECONDS = 30.0


class DeadLetterTopic:
    """An `EventSink` that hands everything to the store and dead letters to the topic as well."""

    def __init__(
        self,
        store: EventSink,
        client: Mapping[str, Any],
        topic: str = TOPIC,
        *,
        connect: Callable[..., Any] = KafkaProducer,
    ) -> None:
        """Connects when the first dead letter comes; `client` is what `KafkaSource` takes."""
        self._store = store
        self._client = dict(client)
        self._topic = topic
        self._connect = connect
        self._producer: Any = None

    def insert_events(self, lines: bytes) -> None:
        """See `EventSink`."""
        self._store.insert_events(lines)

    def insert_dead_letters(self, letters: Sequence[DeadLetter], now_micros: int) -> None:
        """Durable in the store and confirmed by the brokers when it returns.

        Raises `StoreUnavailableError` as the store does, and when the topic cannot take them now.
        """
        self._store.insert_dead_letters(letters, now_micros)
        try:
            waiting = [(letter, self._send(letter)) for letter in letters]
            for letter, sent in waiting:
                self._confirm(letter, sent)
        except (KafkaError, OSError, AssertionError) as error:
            self.close()
            raise StoreUnavailableError(
                f"Topic {self._topic} cannot take dead letters now: {type(error).__name__}"
            ) from error

    def close(self) -> None:
        """End the connection; everything was confirmed already. Idempotent."""
        if self._producer is not None:
            self._producer.close(timeout=1)
            self._producer = None

    def _send(self, letter: DeadLetter) -> Any:
        if self._producer is None:
            self._producer = self._connect(
                **self._client,
                client_id="falseok-pipeline",
                acks="all",
                # With idempotence one message that is refused for its size would end the client for all others.
                enable_idempotence=False,
                compression_type="gzip",
                allow_auto_create_topics=False,
                metrics_enabled=False,
            )
        return self._producer.send(
            self._topic,
            key=letter.id.encode(),
            value=letter.original[:LONGEST_BYTES],
            headers=_headers(letter),
        )

    def _confirm(self, letter: DeadLetter, sent: Any) -> None:
        try:
            sent.get(timeout=_CONFIRM_SECONDS)
        except MessageSizeTooLargeError:
            # Waiting would not help, and the store has it.
            logger.warning("dead_letter_too_large id=%s topic=%s", letter.id, self._topic)


def _headers(letter: DeadLetter) -> list[tuple[str, bytes]]:
    place = parse_place(letter.source)
    fields = {
        "reason": str(letter.reason),
        "message": letter.message,
        "byte_offset": letter.byte_offset,
        "original_bytes": len(letter.original),
    }
    fields |= place._asdict() if place is not None else {"source": letter.source}
    return [(name, str(value).encode(errors="backslashreplace")) for name, value in fields.items()]
