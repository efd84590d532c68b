"""The Kafka sink against a real broker: what arrives, in which order, and what happens while the broker is away."""

import signal
import threading
import time
from pathlib import Path

import pytest
from tests.collector import processes
from tests.collector.waiting import until
from tests.kafka.broker import PASSWORD, USER, Broker
from tests.kafka.reading import (
    events_of,
    first_of_each,
    in_order,
    settings_for,
    spooled_in,
    started,
)

from falseok_collector.attributes import CollectorHeartbeat, EngineConfig, SchedPreempt
from falseok_collector.emitter import Emitter
from falseok_collector.events import CONTENT_TYPE, attributes_of, decode
from falseok_collector.outlet import BATCH_EVENTS
from falseok_collector.settings import read_settings

pytestmark = [
    pytest.mark.kafka,
    # kafka-python leaves sockets of failed connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

AWAY_SECONDS = 60.0


def test_events_arrive_as_contract_says(broker: Broker, topics: tuple[str, str], spool_dir: Path) -> None:
    """Many events a message, keyed by engine, with the content type; configurations also on the engines' topic."""
    emitter = started(settings_for(broker, topics, spool_dir))
    emitter.emit(EngineConfig(process="engine_core", role="kv_producer"))
    for tokens in range(5_000):
        emitter.emit(SchedPreempt(output_tokens=tokens))
    emitter.close()
    messages = broker.read(topics[0])
    events = events_of(messages)
    in_order(emitter, events)
    assert 5_000 == [event.name for event in events].count("sched.preempt")
    assert {b"engine-1"} == {message.key for message in messages}
    assert {(("content-type", CONTENT_TYPE.encode()),)} == {tuple(message.headers) for message in messages}
    assert len(messages) < len(events) / 50
    (copy,) = broker.read(topics[1])
    (config,) = [event for event in events if event.name == "engine.config"]
    assert (b"engine-1", config) == (copy.key, decode(copy.value.strip()))
    assert not (spool_dir / "kafka").exists() or [] == list((spool_dir / "kafka").iterdir())


def load(emitter: Emitter, stopping: threading.Event, refusals: list[int]) -> int:
    """About a thousand events a second until told to stop; how many were emitted."""
    emitted = 0
    while not stopping.wait(0.01):
        for _ in range(10):
            emitter.emit(SchedPreempt(output_tokens=emitted))
            emitted += 1
        refusals.append(emitter.ring.dropped)
    return emitted


def test_away_for_a_minute_under_load(broker: Broker, topics: tuple[str, str], spool_dir: Path) -> None:
    """Nothing is lost, nothing is out of order, the ring refuses nothing, and the drained spool is empty."""
    emitter = started(settings_for(broker, topics, spool_dir, "spool"))
    stopping, refusals, emitted = threading.Event(), list[int](), list[int]()
    worker = threading.Thread(target=lambda: emitted.append(load(emitter, stopping, refusals)))
    worker.start()
    time.sleep(3)
    broker.kill()
    time.sleep(AWAY_SECONDS / 2)
    kafka, spool = emitter.sinks
    assert ("spooling", "ok") == (kafka.counts.condition, spool.counts.condition)
    assert kafka.counts.waiting > 10_000
    time.sleep(AWAY_SECONDS / 2)
    broker.start()
    until(lambda: "ok" == kafka.counts.condition and not kafka.counts.waiting, seconds=60)
    time.sleep(3)
    stopping.set()
    worker.join()
    emitter.close()

    events = events_of(broker.read(topics[0]))
    in_order(emitter, events)
    assert emitted == [[event.name for event in first_of_each(events)].count("sched.preempt")]
    assert 0 == max(refusals)
    spooled = spooled_in(spool_dir)
    assert {event.id for event in spooled} == {event.id for event in events}
    assert [] == list((spool_dir / "kafka").iterdir())
    beats = [attributes_of(event) for event in spooled if event.name == "collector.heartbeat"]
    told = {sink.state for beat in beats if isinstance(beat, CollectorHeartbeat) for sink in beat.sinks[:1]}
    assert {"ok", "spooling"} <= told
    # Delivered twice is only what was under way when the broker went: a batch or a few.
    assert len(events) - len(first_of_each(events)) <= 3 * BATCH_EVENTS


KILLED = """
import sys
from falseok_collector.attributes import SchedPreempt
from falseok_collector.emitter import Emitter
from falseok_collector.outlet import BATCH_EVENTS
from falseok_collector.settings import read_settings

emitter = Emitter(read_settings())
emitter.engine_id = "engine-dead"
emitter.start()
for number in range(5_000):
    emitter.emit(SchedPreempt(output_tokens=number))
while emitter.sinks[0].counts.waiting < 5_000:
    pass
print(emitter.boot, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_left_is_sent_by_the_next(
    broker: Broker, topics: tuple[str, str], spool_dir: Path
) -> None:
    """`kill -9` while the broker is away: any later process of the host drains it, in order, and tidies up."""
    broker.kill()
    victim = processes.start(
        KILLED,
        FALSEOK_SINKS="kafka",
        FALSEOK_SPOOL_DIR=str(spool_dir),
        FALSEOK_SPOOL_SEGMENT_BYTES="100000",
        FALSEOK_KAFKA_BOOTSTRAP_SERVERS=broker.servers,
        FALSEOK_KAFKA_TOPIC=topics[0],
        FALSEOK_KAFKA_ENGINES_TOPIC=topics[1],
    )
    with victim:
        assert victim.stdout is not None
        boot = victim.stdout.readline().strip()
        assert len(list((spool_dir / "kafka").glob(f"{boot}-*.ndjson"))) > 1
        victim.send_signal(signal.SIGKILL)
    broker.start()
    emitter = started(settings_for(broker, topics, spool_dir), engine_id="engine-next")
    until(lambda: not list((spool_dir / "kafka").glob(f"{boot}*")), seconds=30)
    emitter.close()
    events = events_of(broker.read(topics[0]))
    in_order(emitter, events)
    left = first_of_each([event for event in events if event.boot == boot])
    assert list(range(1, len(left) + 1)) == [event.seq for event in left]
    assert 5_000 == [event.name for event in left].count("sched.preempt")
    assert [] == list((spool_dir / "kafka").iterdir())


def test_the_end_of_a_process_is_not_delayed_by_a_dead_broker(
    broker: Broker, topics: tuple[str, str], spool_dir: Path
) -> None:
    """Stopped in mid-flight: what was not confirmed lies in the spool, and closing takes a few seconds at most."""
    emitter = started(settings_for(broker, topics, spool_dir))
    until(lambda: emitter.sinks[0].counts.sent)
    broker.kill()
    for tokens in range(1_000):
        emitter.emit(SchedPreempt(output_tokens=tokens))
    began = time.monotonic()
    emitter.close()
    assert time.monotonic() - began < 4
    waiting = spooled_in(spool_dir / "kafka")
    broker.start()
    sent = events_of(broker.read(topics[0]))
    in_order(emitter, sent + waiting)
    assert 1_000 == [event.name for event in first_of_each(sent + waiting)].count("sched.preempt")


def test_an_event_too_large_for_the_broker_is_lost_alone(
    broker: Broker, topics: tuple[str, str], spool_dir: Path
) -> None:
    """It is counted; those before and behind it arrive, and the sink goes on."""
    small = f"{topics[0]}.small"
    broker.create_topics(small, configs={"max.message.bytes": "100000"})
    emitter = started(settings_for(broker, (small, topics[1]), spool_dir, kafka_compression="none"))
    for _ in range(1_000):
        emitter.emit(SchedPreempt())
    emitter.emit(EngineConfig(process="x" * 200_000))
    emitter.emit(SchedPreempt())
    until(lambda: emitter.sinks[0].counts.lost)
    emitter.close()
    events = first_of_each(events_of(broker.read(small)))
    assert 1_001 == [event.name for event in events].count("sched.preempt")
    assert (1, 0) == (emitter.sinks[0].counts.lost, emitter.sinks[0].counts.waiting)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_sasl(
    broker: Broker, topics: tuple[str, str], spool_dir: Path, mechanism: str, tmp_path: Path
) -> None:
    """The right password opens the door; it comes from a file."""
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n", encoding="utf-8")
    settings = read_settings(
        {
            "FALSEOK_SINKS": "kafka",
            "FALSEOK_SPOOL_DIR": str(spool_dir),
            "FALSEOK_KAFKA_BOOTSTRAP_SERVERS": broker.sasl_servers,
            "FALSEOK_KAFKA_TOPIC": topics[0],
            "FALSEOK_KAFKA_ENGINES_TOPIC": topics[1],
            "FALSEOK_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "FALSEOK_KAFKA_SASL_MECHANISM": mechanism,
            "FALSEOK_KAFKA_SASL_USERNAME": USER,
            "FALSEOK_KAFKA_SASL_PASSWORD_FILE": str(secret),
        }
    )
    emitter = started(settings)
    emitter.emit(SchedPreempt())
    emitter.close()
    assert 1 == [event.name for event in events_of(broker.read(topics[0]))].count("sched.preempt")


def test_a_wrong_password_is_told_and_events_wait(
    broker: Broker, topics: tuple[str, str], spool_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused is like away: nothing is lost, and neither the password nor the user shows anywhere."""
    more = {
        "kafka_bootstrap_servers": broker.sasl_servers,
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_username": USER,
        "kafka_sasl_password": "not this one",
        "kafka_timeout_seconds": 2.0,
    }
    settings = settings_for(broker, topics, spool_dir, **more)
    emitter = started(settings, refused=True)
    assert "spooling" == emitter.sinks[0].counts.condition
    emitter.close()
    assert "Authentication" in emitter.sinks[0].counts.last_error
    assert [] == broker.read(topics[0])
    assert "not this one" not in caplog.text + repr(settings)


def test_tls(broker: Broker, topics: tuple[str, str], spool_dir: Path) -> None:
    """A certificate that the named authority vouches for is accepted."""
    more = {
        "kafka_bootstrap_servers": broker.tls_servers,
        "kafka_security_protocol": "SSL",
        "kafka_ssl_cafile": str(broker.cafile),
    }
    emitter = started(settings_for(broker, topics, spool_dir, **more))
    emitter.emit(SchedPreempt())
    emitter.close()
    assert 1 == [event.name for event in events_of(broker.read(topics[0]))].count("sched.preempt")


def test_a_certificate_nobody_vouches_for_is_refused(
    broker: Broker, topics: tuple[str, str], spool_dir: Path
) -> None:
    """Without the authority the sink does not talk to the broker; events wait."""
    more = {
        "kafka_bootstrap_servers": broker.tls_servers,
        "kafka_security_protocol": "SSL",
        "kafka_timeout_seconds": 2.0,
    }
    emitter = started(settings_for(broker, topics, spool_dir, **more), refused=True)
    emitter.close()
    assert [] == broker.read(topics[0])


def test_a_topic_that_is_not_there_is_waited_for(
    broker: Broker, topics: tuple[str, str], spool_dir: Path
) -> None:
    """Events wait in the spool until an operator makes the topic."""
    late = f"{topics[0]}.late"
    settings = settings_for(broker, (late, topics[1]), spool_dir, kafka_timeout_seconds=1.0)
    emitter = started(settings, refused=True)
    broker.create_topics(late)
    until(lambda: not emitter.sinks[0].counts.waiting, seconds=30)
    emitter.close()
    in_order(emitter, events_of(broker.read(late)))


def test_a_broker_that_hangs_is_like_one_that_is_away(
    broker: Broker, topics: tuple[str, str], spool_dir: Path
) -> None:
    """It takes connections and answers nothing: after the time-out events go to the spool, and come back in order."""
    emitter = started(settings_for(broker, topics, spool_dir, kafka_timeout_seconds=1.0))
    (kafka,) = emitter.sinks
    with broker.paused():
        for tokens in range(5_000):
            emitter.emit(SchedPreempt(output_tokens=tokens))
        until(lambda: kafka.counts.waiting >= 5_000)
        assert 0 == emitter.ring.dropped
    until(lambda: not kafka.counts.waiting, seconds=60)
    emitter.close()
    events = events_of(broker.read(topics[0]))
    in_order(emitter, events)
    assert 5_000 == [event.name for event in first_of_each(events)].count("sched.preempt")


FORKED = """
import os, sys, threading, time
from falseok_collector.attributes import SchedPreempt
from falseok_collector.emitter import Emitter
from falseok_collector.settings import read_settings

parent = Emitter(read_settings())
os.register_at_fork(after_in_child=parent.reset)
parent.engine_id = "engine-parent"
parent.start()
while not parent.sinks[0].counts.sent:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    child_has = (parent.sinks, threading.active_count())
    parent.engine_id = "engine-child"
    parent.emit(SchedPreempt(output_tokens=1))
    parent.start()
    while parent.sinks[0].counts.sent < 2:
        pass
    parent.close()
    os.write(1, repr(child_has).encode() + b"\\n")
    sys.exit(0)
_, status = os.waitpid(child, 0)
parent.emit(SchedPreempt(output_tokens=1))
parent.close()
print(status)
"""


def test_a_forked_child_begins_anew(broker: Broker, topics: tuple[str, str], spool_dir: Path) -> None:
    """The client is not inherited: no thread of it, no connection of it, and both processes end in an orderly way."""
    printed = processes.run(
        FORKED,
        FALSEOK_SINKS="kafka",
        FALSEOK_SPOOL_DIR=str(spool_dir),
        FALSEOK_FLUSH_SECONDS="0.01",
        FALSEOK_KAFKA_BOOTSTRAP_SERVERS=broker.servers,
        FALSEOK_KAFKA_TOPIC=topics[0],
        FALSEOK_KAFKA_ENGINES_TOPIC=topics[1],
    )
    assert "([], 1)\n0\n" == printed
    events = first_of_each(events_of(broker.read(topics[0])))
    for engine_id in ("engine-parent", "engine-child"):
        own = [event for event in events if event.engine_id == engine_id]
        assert list(range(1, len(own) + 1)) == sorted(event.seq for event in own)
        assert 1 == len({event.boot for event in own}) == [event.name for event in own].count("engine.exit")
