"""The pipeline's source against a real broker: everything once, whoever comes and goes."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.collector.waiting import until
from tests.kafka.broker import PASSWORD, USER, Broker
from tests.kafka.filling import contents, recorded_lines, send, send_values, source_of

from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.dead_letters import Reason
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import SourceError
from falseok_pipeline.service import Service
from falseok_pipeline.sources import Batch
from falseok_pipeline.sources.batch_building import BatchLimits
from falseok_pipeline.sources.kafka import KafkaSource, Subscription
from falseok_pipeline.sources.kafka_messages import lines_of

pytestmark = [
    pytest.mark.kafka,
    # kafka-python leaves sockets of failed connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
SMALL = BatchLimits(size_bytes=200_000, lines=500)


def drained(source: KafkaSource, messages: int, *, seconds: float = 60) -> list[Batch]:
    """Batches until so many messages were handed out and committed."""
    batches: list[Batch] = []

    def enough() -> bool:
        batch = source.poll()
        if batch is not None:
            batches.append(batch)
            source.commit(batch.positions)
        return sum(len(each.slices) + len(each.dead_letters) for each in batches) >= messages

    until(enough, seconds=seconds)
    return batches


def next_batch(source: KafkaSource) -> Batch:
    """The next one that has something in it, not committed."""
    found: list[Batch] = []

    def got() -> bool:
        batch = source.poll()
        if batch is not None:
            found.append(batch)
        return bool(found)

    until(got)
    return found[0]


def number_of_messages(broker: Broker, *topics: str) -> int:
    """Messages in the topics."""
    return sum(len(broker.read(topic)) for topic in topics)


def test_a_topic_read_from_the_start_into_a_fresh_store_gives_the_same_tables(
    broker: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    """Twice with other batch boundaries, and once more without Kafka."""
    lines = recorded_lines(20)
    send(broker, topics, lines)
    found = []
    for group, limits in (("first", SMALL), ("second", BatchLimits())):
        data = DataDirectory(tmp_path / group)
        with Service.open(
            data,
            source=lambda group=group, limits=limits: source_of(broker, topics, group, limits=limits),  # type: ignore[misc]
            serve_queries=False,
        ) as service:
            until(lambda service=service: service.run_once().events_stored >= len(lines), seconds=60)  # type: ignore[misc]
            until(lambda service=service: not service.run_once().lag_messages)  # type: ignore[misc]
            found.append(contents(service.store))
    with EmbeddedStore(tmp_path / "plain") as store:
        store.migrate(1)
        store.insert_events(b"".join(line + b"\n" for line in lines))
        found.append(contents(store))
    assert found[0] == found[1] == found[2]
    assert len(lines) == len(found[0]["events"])


def test_a_group_shares_the_partitions_and_loses_nothing_in_mid_batch(
    broker: Broker, topics: tuple[str, str]
) -> None:
    """A second consumer comes while the first has handed out and not committed; then the first leaves."""
    lines = recorded_lines(60)
    everything = set(lines)
    unsent = [lines[at : at + 1_000] for at in range(0, len(lines), 1_000)]

    def send_next() -> None:
        """With keys of many engines, so that every partition has something."""
        chunk = unsent.pop()
        send_values(broker, ((topics[0], b"%d" % number, line) for number, line in enumerate(chunk)))

    send_next()
    stored: set[bytes] = set()
    first = source_of(broker, topics, "shared", limits=SMALL)
    handed = next_batch(first)
    second = source_of(broker, topics, "shared", limits=SMALL)
    stop = threading.Event()

    def work(source: KafkaSource, own: set[bytes]) -> None:
        while not stop.is_set():
            batch = source.poll()
            if batch is not None:
                own.update(line for piece in batch.slices for line in piece.data.splitlines())
                source.commit(batch.positions)

    by_second: set[bytes] = set()
    thread = threading.Thread(target=work, args=(second, by_second))
    thread.start()
    try:
        # The batch at hand is stored and committed while the group is being divided anew.
        stored.update(line for piece in handed.slices for line in piece.data.splitlines())
        first.commit(handed.positions)

        def shared() -> bool:
            batch = first.poll()
            if batch is not None:
                stored.update(line for piece in batch.slices for line in piece.data.splitlines())
                first.commit(batch.positions)
            elif unsent:
                send_next()
            return bool(by_second)

        until(shared)
        while unsent:
            send_next()
        first.close()
        until(lambda: everything <= stored | by_second, seconds=60)
    finally:
        stop.set()
        thread.join()
        second.close()
    assert everything == {line for line in stored | by_second if line in everything}


def test_what_was_not_committed_is_read_again_by_the_next(broker: Broker, topics: tuple[str, str]) -> None:
    """A consumer that dies between insert and commit leaves its batch to its successor, from the same offset."""
    send(broker, topics, recorded_lines())
    first = source_of(broker, topics, "again", instance_id="one")
    before = next_batch(first)
    # Not closed: killed processes say no good-bye. The same instance name takes over at once.
    second = source_of(broker, topics, "again", instance_id="one")
    again = next_batch(second)
    first_places = {piece.source: piece.data for piece in before.slices}
    second_places = {piece.source: piece.data for piece in again.slices}
    assert first_places.items() & second_places.items()
    second.close()
    first.close()


def test_a_broker_that_goes_away_is_told_of_and_waited_for(broker: Broker, topics: tuple[str, str]) -> None:
    """Nothing is raised; after its return reading goes on where it was."""
    send(broker, topics, recorded_lines())
    before = number_of_messages(broker, *topics)
    source = source_of(broker, topics, "waiting", seconds_now=iter(range(0, 10**9, 10)).__next__)
    drained(source, before)
    broker.kill()
    until(lambda: source.poll() is None and "answers" in source.state().trouble, seconds=60)
    broker.start()
    send(broker, topics, recorded_lines(2)[-50:])
    after = number_of_messages(broker, *topics)
    drained(source, after - before)
    assert "" == source.state().trouble
    assert 0 == source.state().lost_messages
    source.close()


def test_what_retention_took_is_counted(broker: Broker, topics: tuple[str, str]) -> None:
    """A consumer that comes back too late says how many messages are gone; one that begins does not."""
    from kafka.structs import TopicPartition  # noqa: PLC0415 - plain tests need no Kafka library

    from kafka import KafkaAdminClient  # noqa: PLC0415 - as above

    messages = [(topics[0], b"engine", b'{"line": %d}\n' % number) for number in range(40)]
    send_values(broker, messages[:20])
    source = source_of(broker, topics, "late")
    drained(source, 20)
    source.close()
    send_values(broker, messages[20:])
    (partition,) = {message.partition for message in broker.read(topics[0])}
    admin = KafkaAdminClient(bootstrap_servers=broker.servers)
    admin.delete_records({TopicPartition(topics[0], partition): 35})
    admin.close()
    for group, lost in (("late", 15), ("fresh", 0)):
        source = source_of(broker, topics, group)
        drained(source, 5)
        assert lost == source.state().lost_messages
        source.close()


def test_the_lag_is_what_was_not_committed(broker: Broker, topics: tuple[str, str]) -> None:
    """In messages, over the partitions of this process."""
    send_values(broker, [(topics[0], b"engine", b"{}\n")] * 30)
    source = source_of(broker, topics, "lag", limits=BatchLimits(lines=1))
    batch = next_batch(source)
    source.commit(batch.positions)
    (handed,) = batch.positions.values()
    assert 30 - handed == source.state().lag_messages
    source.close()


def test_messages_without_a_value_and_without_an_end_of_line(broker: Broker, topics: tuple[str, str]) -> None:
    """The first is a dead letter at its place, the second a line."""
    send_values(broker, [(topics[0], b"k", None), (topics[0], b"k", b""), (topics[0], b"k", b'{"a":1}')])
    source = source_of(broker, topics, "odd")
    batches = drained(source, 3)
    letters = [letter for batch in batches for letter in batch.dead_letters]
    (piece,) = [piece for batch in batches for piece in batch.slices]
    assert [Reason.NOT_JSON, Reason.NOT_JSON] == [letter.reason for letter in letters]
    assert b'{"a":1}\n' == piece.data
    assert piece.source.startswith(f"{topics[0]}[")
    assert piece.source.endswith("]@2")
    source.close()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_that_kafka_has_is_read(
    broker: Broker, topics: tuple[str, str], codec: str | None
) -> None:
    """Whatever producers choose, also the Java and Go ones; large messages included."""
    value = b'{"text":"%s"}\n' % (b"abcdefgh" * 30_000)
    send_values(broker, [(topics[0], b"k", value)] * 8, compression_type=codec)
    source = source_of(broker, topics, f"codec-{codec}")
    batches = drained(source, 8)
    assert {value} == {piece.data for batch in batches for piece in batch.slices}
    source.close()


def test_a_missing_topic_says_what_to_do(broker: Broker, topics: tuple[str, str]) -> None:
    """Rather than waiting for ever for messages of a topic that is not there."""
    with pytest.raises(SourceError, match=r"no topic absent.*falseok topics apply"):
        source_of(broker, (topics[0], "absent"), "x")


def test_no_broker_says_so() -> None:
    """At the start; later it is waited for."""
    client = {"bootstrap_servers": ["127.0.0.1:9"], "bootstrap_timeout_ms": 500}
    with pytest.raises(SourceError, match=r"does not answer at 127\.0\.0\.1:9"):
        KafkaSource(client, Subscription({"x": lines_of}))


@pytest.fixture
def secured(broker: Broker) -> list[dict[str, Any]]:
    """Ways in that ask for something."""
    import ssl  # noqa: PLC0415 - only here

    return [
        {
            "bootstrap_servers": [broker.sasl_servers],
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
        for mechanism in ("PLAIN", "SCRAM-SHA-256")
    ] + [
        {
            "bootstrap_servers": [broker.tls_servers],
            "security_protocol": "SSL",
            "ssl_context": ssl.create_default_context(cafile=str(broker.cafile)),
        }
    ]


def test_sasl_and_tls_let_us_in(
    broker: Broker, topics: tuple[str, str], secured: list[dict[str, Any]]
) -> None:
    """PLAIN, SCRAM and a server certificate; a wrong password is refused with its reason."""
    send_values(broker, [(topics[0], b"k", b"{}\n")] * 3)
    for number, client in enumerate(secured):
        source = KafkaSource(client, Subscription(dict.fromkeys(topics, lines_of), group=f"secured-{number}"))
        drained(source, 3)
        source.close()
    wrong = {**secured[0], "sasl_plain_password": "wrong", "bootstrap_timeout_ms": 5_000}
    with pytest.raises(SourceError) as refused:
        KafkaSource(wrong, Subscription(dict.fromkeys(topics, lines_of)))
    assert "wrong" not in str(refused.value)
