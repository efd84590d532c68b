"""Dead letters on a real topic: the original bytes, why, and where."""

import random
from pathlib import Path

import pytest
from tests.collector.waiting import until
from tests.kafka.broker import Broker
from tests.kafka.filling import recorded_lines, send_values, source_of

from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.dead_letter_topic import LONGEST_BYTES, DeadLetterTopic
from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import StoreUnavailableError
from falseok_pipeline.service import Service

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_a_bad_line_of_a_message_is_in_the_topic_and_in_the_store(
    broker: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    """The good lines around it are stored; the place names the message and the byte within it."""
    broker.create_topics("bad.dead", partitions=1)
    good = recorded_lines()[:3]
    value = b"\n".join([good[0], b"not an event \xff", good[1], good[2]]) + b"\n"
    send_values(broker, [(topics[0], b"engine", value)])
    client = {"bootstrap_servers": [broker.servers]}
    with Service.open(
        DataDirectory(tmp_path),
        source=lambda: source_of(broker, topics, "bad"),
        sink=lambda store: DeadLetterTopic(store, client, "bad.dead"),
        serve_queries=False,
    ) as service:
        until(lambda: service.run_once().dead_letters)
        assert 3 == service.statistics.events_stored
        (stored,) = service.store.query("SELECT id, source, byte_offset, original_base64 FROM dead_letters")
    (message,) = broker.read("bad.dead")
    headers = {name: value.decode() for name, value in message.headers}
    assert b"not an event \xff" == message.value
    assert stored["id"] == message.key.decode()
    assert ("not_utf8", topics[0], "0") == (headers["reason"], headers["topic"], headers["offset"])
    assert str(len(good[0]) + 1) == headers["byte_offset"] == str(stored["byte_offset"])
    assert f"{topics[0]}[{headers['partition']}]@0" == stored["source"]


def test_an_original_of_megabytes_is_shortened(broker: Broker, tmp_path: Path) -> None:
    """The store has all of it; the header tells how long it was."""
    broker.create_topics("large.dead", partitions=1)
    original = random.Random(1).randbytes(3 * 1024 * 1024)
    with EmbeddedStore(tmp_path / "store") as store:
        store.migrate(1)
        topic = DeadLetterTopic(store, {"bootstrap_servers": [broker.servers]}, "large.dead")
        topic.insert_dead_letters([DeadLetter(Reason.TOO_LONG, "long", "t[0]@1", 0, original)], 1)
        topic.close()
        (row,) = store.query("SELECT original_bytes FROM dead_letters")
    (message,) = broker.read("large.dead")
    assert original[:LONGEST_BYTES] == message.value
    assert str(len(original)) == dict(message.headers)["original_bytes"].decode()
    assert len(original) == row["original_bytes"]


def test_a_topic_that_takes_no_such_size_stops_nothing(broker: Broker, tmp_path: Path) -> None:
    """An operator's lower limit: the letters around it arrive, and the store has all."""
    broker.create_topics("small.dead", partitions=1, configs={"max.message.bytes": "2000"})
    letters = [
        DeadLetter(Reason.NOT_JSON, "m", f"t[0]@{size}", 0, random.Random(size).randbytes(size))
        for size in (256, 9_000, 512)
    ]
    with EmbeddedStore(tmp_path / "store") as store:
        store.migrate(1)
        topic = DeadLetterTopic(store, {"bootstrap_servers": [broker.servers]}, "small.dead")
        topic.insert_dead_letters(letters, 1)
        topic.close()
        assert 3 == len(store.query("SELECT id FROM dead_letters"))
    assert {256, 512} >= {len(message.value) for message in broker.read("small.dead")}


def test_a_topic_that_is_away_makes_the_pipeline_wait(broker: Broker, tmp_path: Path) -> None:
    """Nothing is dropped: the batch is tried again until both have the letters."""
    broker.create_topics("away.dead", partitions=1)
    letter = DeadLetter(Reason.NOT_JSON, "bad", "t[0]@1", 0, b"x")
    client = {"bootstrap_servers": [broker.servers], "bootstrap_timeout_ms": 500, "max_block_ms": 500}
    with EmbeddedStore(tmp_path / "store") as store:
        store.migrate(1)
        topic = DeadLetterTopic(store, client, "away.dead")
        broker.kill()
        with pytest.raises(StoreUnavailableError, match=r"away\.dead"):
            topic.insert_dead_letters([letter], 1)
        broker.start()
        topic.insert_dead_letters([letter], 2)
        topic.close()
    assert [b"x"] == [message.value for message in broker.read("away.dead")]
