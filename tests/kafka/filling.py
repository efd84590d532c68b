"""What the tests of the pipeline's Kafka side share: topics filled with recorded events, and what a store then holds."""

from collections.abc import Iterable
from typing import Any

from tests.kafka.broker import Broker

from falseok_collector.sinks.kafka_messages import messages_of
from falseok_lab import recording
from falseok_pipeline import replay
from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.sources.kafka import KafkaSource, Subscription
from falseok_pipeline.sources.kafka_messages import lines_of

DUMPED = ("requests", "transfers", "engines", "engine_pairs", "handshakes", "collectors", "request_verdicts")
"""Views whose rows tell whether two stores hold the same."""


def recorded_lines(times: int = 1, name: str = "vllm-0.27.0-dtype-mismatch") -> list[bytes]:
    """Events of a recorded incident, as often as wanted, each time as other engines and requests."""
    lines = recording.load(recording.shipped(name)).lines()
    return list(lines) if times == 1 else list(replay.multiply(lines, times))


def send(broker: Broker, topics: tuple[str, str], lines: Iterable[bytes]) -> None:
    """Send events as the collector does: many a message, keyed by engine."""
    send_values(broker, ((m.topic, m.key, m.value) for m in messages_of(lines, *topics)))


def send_values(
    broker: Broker, messages: Iterable[tuple[str, bytes | None, bytes | None]], **options: Any
) -> None:
    """Send messages as they are; returns when all are confirmed."""
    from kafka import KafkaProducer  # noqa: PLC0415 - plain tests need no Kafka library

    producer = KafkaProducer(
        bootstrap_servers=broker.servers, max_request_size=4 * 1024 * 1024, batch_size=256 * 1024, **options
    )
    try:
        sent = [producer.send(topic, key=key, value=value) for topic, key, value in messages]
        producer.flush()
        for future in sent:
            future.get(timeout=30)
    finally:
        producer.close()


def source_of(broker: Broker, topics: tuple[str, str], group: str, **more: Any) -> KafkaSource:
    """A consumer of the topics that gives up a dead one's partitions soon."""
    subscription = Subscription(
        dict.fromkeys(topics, lines_of),
        frozenset(topics[1:]),
        group=group,
        session_timeout_seconds=more.pop("session_timeout_seconds", 2.0),
        instance_id=more.pop("instance_id", ""),
    )
    return KafkaSource({"bootstrap_servers": [broker.servers]}, subscription, **more)


def contents(store: ClientStore) -> dict[str, list[str]]:
    """Every event and every row of the views, in an order of their own."""
    events = store.query("SELECT id FROM (SELECT DISTINCT id FROM events) ORDER BY id")
    found = {"events": [str(row["id"]) for row in events]}
    for view in DUMPED:
        found[view] = sorted(repr(_ordered(row)) for row in store.query(f"SELECT * FROM {view}"))
    return found


def _ordered(value: Any) -> Any:
    """Sets come as lists in any order."""
    if isinstance(value, dict):
        return {name: _ordered(item) for name, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return sorted((_ordered(item) for item in value), key=repr)
    return value
