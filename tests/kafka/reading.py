"""What the Kafka tests share: a process that sends, and what arrived."""

from pathlib import Path
from typing import Any

from tests.collector.waiting import until
from tests.kafka.broker import Broker

from falseok_collector.emitter import Emitter
from falseok_collector.events import Envelope, decode
from falseok_collector.settings import Settings


def settings_for(
    broker: Broker, topics: tuple[str, str], spool_dir: Path, *sinks: str, **more: Any
) -> Settings:
    """Settings of a process that sends to the broker."""
    values: dict[str, Any] = {
        "sinks": ("kafka", *sinks),
        "spool_dir": str(spool_dir),
        "kafka_bootstrap_servers": broker.servers,
        "kafka_topic": topics[0],
        "kafka_engines_topic": topics[1],
        "flush_seconds": 0.01,
        "heartbeat_seconds": 1.0,
    }
    return Settings(**values | more)


def events_of(messages: list[Any]) -> list[Envelope]:
    """Every event of the messages, in the order of each partition."""
    return [decode(line) for message in messages for line in message.value.splitlines()]


def spooled_in(directory: Path) -> list[Envelope]:
    """Every event of a spool, in order."""
    paths = sorted(directory.glob("*.ndjson"))
    return [decode(line) for path in paths for line in path.read_bytes().splitlines()]


def first_of_each(events: list[Envelope]) -> list[Envelope]:
    """The events without those that were delivered again."""
    return list({event.id: event for event in reversed(events)}.values())[::-1]


def started(settings: Settings, engine_id: str = "engine-1", *, refused: bool = False) -> Emitter:
    """An emitter of an engine that is known from the beginning, once it has sent its first event or failed to."""
    emitter = Emitter(settings)
    emitter.process, emitter.engine_id = "engine_core", engine_id
    emitter.start()
    counts = emitter.sinks[0].counts
    until(lambda: counts.waiting if refused else counts.sent)
    return emitter


def in_order(emitter: Emitter, events: list[Envelope]) -> None:
    """Fail unless what was emitted by this test arrived once, in order, and nothing of the boot is missing."""
    own = [event for event in first_of_each(events) if event.boot == emitter.boot]
    assert list(range(1, len(own) + 1)) == sorted(event.seq for event in own)
    load = [event.seq for event in own if event.name == "sched.preempt"]
    assert sorted(load) == load
