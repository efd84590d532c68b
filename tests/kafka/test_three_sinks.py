"""Kafka, an OTLP receiver and the spool at once: the same events in each, and none in the way of the others."""

import time
from pathlib import Path

import pytest
from tests.collector.sinks.receiver import http_receiver
from tests.collector.waiting import until
from tests.kafka.broker import Broker
from tests.kafka.reading import events_of, first_of_each, settings_for, spooled_in, started

from falseok_collector.attributes import EngineConfig, SchedPreempt

pytestmark = [
    pytest.mark.kafka,
    # kafka-python leaves sockets of failed connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_all_three_hold_the_same_events(
    broker: Broker, topics: tuple[str, str], spool_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every id is in each of them, once after removing repetitions; nothing is lost."""
    with http_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        emitter = started(settings_for(broker, topics, spool_dir, "otlp", "spool"))
        emitter.emit(EngineConfig(process="engine_core"))
        for tokens in range(10_000):
            emitter.emit(SchedPreempt(output_tokens=tokens))
        until(lambda: all(sink.counts.sent > 10_000 for sink in emitter.sinks))
        emitter.close()
        received = receiver.ids()
    spooled = [event.id for event in spooled_in(spool_dir)]
    on_kafka = [event.id for event in first_of_each(events_of(broker.read(topics[0])))]
    assert spooled == received
    assert set(spooled) == set(on_kafka)
    assert len(spooled) == len(on_kafka) == len(set(spooled))
    assert [f"{emitter.boot}-{number}" for number in range(1, len(spooled) + 1)] == sorted(
        spooled, key=lambda name: int(name.rpartition("-")[2])
    )


def test_with_both_receivers_dead_the_spool_has_everything_and_the_engine_notices_nothing(
    broker: Broker, topics: tuple[str, str], spool_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ring refuses nothing, memory stays bounded, and the process ends within a few seconds."""
    with http_receiver() as gone:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", gone.url)
    broker.kill()
    settings = settings_for(broker, topics, spool_dir, "otlp", "spool", ring_events=1_000)
    emitter = started(settings, refused=True)
    for tokens in range(20_000):
        emitter.emit(SchedPreempt(output_tokens=tokens))
        if not tokens % 200:
            until(lambda: not len(emitter.ring))
    assert 0 == emitter.ring.dropped
    assert emitter._sender is not None
    kafka, otlp, spool = (outlet.state() for outlet in emitter._sender.outlets)
    until(lambda: emitter.sinks[2].counts.sent > 20_000)
    assert (0, 0) == (kafka.events_lost, spool.events_lost)
    assert otlp.events_waiting <= 1_000
    assert otlp.events_lost > 15_000
    began = time.monotonic()
    emitter.close()
    assert time.monotonic() - began < 4
    preempts = [event for event in spooled_in(spool_dir) if event.name == "sched.preempt"]
    assert 20_000 == len(preempts)
