"""The Kafka client behind the sink: the only module that imports kafka-python, and only when it connects."""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from falseok_collector.events import CONTENT_TYPE
from falseok_collector.settings import Settings
from falseok_collector.sinks.kafka_configuration import probe, producer_configuration
from falseok_collector.sinks.kafka_messages import Message

HEADERS = [("content-type", CONTENT_TYPE.encode())]
_CLOSE_SECONDS = 0.5
_SLICE_SECONDS = 0.1
_REASONS = 20


class KafkaClient:
    """One idempotent producer. Given up at the first failure: a new one is made when the brokers are back."""

    def __init__(self, settings: Settings) -> None:
        """Connect and learn the cluster. May block for `FALSEOK_KAFKA_TIMEOUT_SECONDS`.

        Raises `OSError` when no broker accepts a connection, and whatever kafka-python raises.
        """
        configuration = producer_configuration(settings)
        probe(settings, configuration["ssl_context"])
        self._producer = _producer(configuration)
        self._timeout_seconds = settings.kafka_timeout_seconds

    def send(
        self, messages: Sequence[Message], remaining: Callable[[float], float]
    ) -> tuple[int, Exception | None]:
        """Send all and wait for the brokers' confirmation: how many of the first were confirmed, and what stopped it.

        `remaining` turns the monotonic deadline into the seconds that may still be waited.
        """
        deadline = time.monotonic() + self._timeout_seconds
        futures: list[Any] = []
        failure: Exception | None = None
        for message in messages:
            try:
                future = self._producer.send(
                    message.topic, key=message.key, value=message.value, headers=HEADERS
                )
            except Exception as error:  # noqa: BLE001 - kafka-python raises many kinds
                failure = error
                break
            futures.append(future)
        for confirmed, future in enumerate(futures):
            try:
                _wait(future, lambda: remaining(deadline))
            except Exception as error:  # noqa: BLE001 - as above
                return confirmed, error
        return len(futures), failure

    def close(self) -> None:
        """End the network thread; what is not confirmed by now is given up. Blocks for about a second at most."""
        try:
            self._producer.close(timeout=_CLOSE_SECONDS)
        except Exception:  # noqa: BLE001 - it raises when something is unconfirmed, and leaves its thread running
            with contextlib.suppress(Exception):
                sender = self._producer._sender  # noqa: SLF001 - there is no other way to end the thread
                sender.force_close()
                sender.join(_CLOSE_SECONDS)
            self.abandon()

    def abandon(self) -> None:
        """Keep the producer from closing itself: in a fork its thread is gone and its locks may be held for ever."""
        self._producer._closed = True  # noqa: SLF001 - `close`, also called when it is collected, returns at once


def is_too_large(error: Exception) -> bool:
    """Whether a message was refused for its size, so that sending it again is no use."""
    from kafka.errors import (  # noqa: PLC0415 - only once it is needed
        MessageSizeTooLargeError,
        RecordListTooLargeError,
    )

    return isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError)


class _Reasons(logging.Handler):
    """Keeps the last exceptions that kafka-python logged: it retries a refused login and then says "time-out".

    Being there also keeps its lines, several for every attempt, off the standard error of a process that has not
    configured logging; where logging is configured, they appear as configured.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: deque[Exception] = deque(maxlen=_REASONS)

    def emit(self, record: logging.LogRecord) -> None:
        """Look for exceptions among the arguments of the message."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        self.seen.extend(each for each in arguments if isinstance(each, Exception))


_reasons = _Reasons()


def _producer(configuration: dict[str, Any]) -> Any:
    """A connected producer. A failed attempt leaves nothing open, and names a refused login as what it is."""
    logging.getLogger("kafka").addHandler(_reasons)  # once: a handler that is there is not added again
    from kafka.errors import AuthorizationError, SaslAuthenticationFailedError  # noqa: PLC0415 - as above
    from kafka.net.compat import KafkaNetClient  # noqa: PLC0415 - as above

    from kafka import KafkaProducer  # noqa: PLC0415 - as above

    made: list[Any] = []

    def client(**options: Any) -> Any:
        made.append(KafkaNetClient(**options))
        return made[0]

    _reasons.seen.clear()
    try:
        return KafkaProducer(kafka_client=client, **configuration)
    except Exception as error:
        for network in made:
            with contextlib.suppress(Exception):
                network.close()
        for reason in list(_reasons.seen):
            if isinstance(reason, AuthorizationError | SaslAuthenticationFailedError):
                raise reason from error
        raise


def _wait(future: Any, remaining: Callable[[], float]) -> None:
    from kafka.errors import KafkaTimeoutError  # noqa: PLC0415 - as above

    while not future.is_done:
        seconds = remaining()
        if seconds <= 0:
            raise KafkaTimeoutError("no confirmation in time")
        with contextlib.suppress(KafkaTimeoutError):
            future.get(timeout=min(seconds, _SLICE_SECONDS))
            return
    future.get(timeout=0)
