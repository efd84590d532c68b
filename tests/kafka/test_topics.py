"""`falseok topics` against a real broker."""

import json

import pytest
from tests.kafka.broker import Broker
from typer.testing import CliRunner

from falseok.app import app
from falseok_pipeline.errors import SourceError
from falseok_pipeline.kafka_topics import Topic, TopicKeeper

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def environment(broker: Broker, request: pytest.FixtureRequest) -> dict[str, str]:
    """Names of this test's own."""
    name = request.node.name.replace("[", "-").replace("]", "")
    return {
        "FALSEOK_KAFKA_BOOTSTRAP_SERVERS": broker.servers,
        "FALSEOK_KAFKA_TOPIC": f"{name}.events",
        "FALSEOK_KAFKA_ENGINES_TOPIC": f"{name}.engines",
        "FALSEOK_KAFKA_DEAD_LETTER_TOPIC": f"{name}.dead",
        "FALSEOK_KAFKA_OTLP_TOPIC": f"{name}.otlp",
    }


def topics(environment: dict[str, str], *arguments: str, exit_code: int = 0) -> list[dict[str, object]]:
    """What the command says."""
    done = CliRunner().invoke(app, ["topics", *arguments, "--json"], env=environment)
    assert exit_code == done.exit_code, done.output
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_topics_are_made_once_and_then_left_alone(broker: Broker, environment: dict[str, str]) -> None:
    """Missing, created, fine; with other wishes different, and changed when that is asked for."""
    assert ["missing"] * 4 == [topic["state"] for topic in topics(environment, "status", exit_code=1)]
    made = topics(environment, "apply", "--partitions", "4")
    assert ["created"] * 4 == [topic["state"] for topic in made]
    assert [4, 1, 1, 4] == [topic["partitions"] for topic in made]
    assert ["fine"] * 4 == [topic["state"] for topic in topics(environment, "status", "--partitions", "4")]
    other = topics(environment, "apply", "--partitions", "6", "--retention-days", "1")
    assert ["different", "fine", "fine", "different"] == [topic["state"] for topic in other]
    assert [
        "it has 4 partitions, should have 6",
        "retention.ms is 604800000, should be 86400000",
    ] == other[0]["differences"]
    changed = topics(environment, "apply", "--partitions", "6", "--retention-days", "1", "--alter")
    assert ["changed", "fine", "fine", "changed"] == [topic["state"] for topic in changed]
    again = topics(environment, "status", "--partitions", "6", "--retention-days", "1")
    assert ["fine"] * 4 == [topic["state"] for topic in again]


def test_a_table_for_people(environment: dict[str, str]) -> None:
    """Names, states and what differs, and what to do about it."""
    topics(environment, "apply")
    done = CliRunner().invoke(app, ["topics", "status", "--retention-days", "3"], env=environment)
    assert 0 == done.exit_code
    assert "different" in done.stdout
    assert "topics apply --alter" in done.stdout


def test_what_the_brokers_refuse_is_said(broker: Broker) -> None:
    """Such as more replicas than there are brokers."""
    with (
        TopicKeeper({"bootstrap_servers": [broker.servers]}) as keeper,
        pytest.raises(SourceError, match=r"refuses topic too\.many"),
    ):
        keeper.apply([Topic("too.many", 1)], replication_factor=5)


def test_no_broker_says_so() -> None:
    """With the setting to look at."""
    client = {"bootstrap_servers": ["127.0.0.1:9"], "bootstrap_timeout_ms": 500}
    with pytest.raises(SourceError, match="FALSEOK_KAFKA_BOOTSTRAP_SERVERS"):
        TopicKeeper(client)
