"""One real broker for the whole run; a test that stops it starts it again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.broker import Broker, running_broker


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Broker:
    """The broker, up."""
    _broker.ensure_started()
    return _broker


@pytest.fixture
def topics(broker: Broker, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Topics of this test's own: one for events, a compacted one for engines."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:150]
    events, engines = f"{name}.events.v1", f"{name}.engines.v1"
    broker.create_topics(events)
    broker.create_topics(engines, partitions=1, configs={"cleanup.policy": "compact"})
    return events, engines


@pytest.fixture
def spool_dir(tmp_path: Path) -> Path:
    """An empty spool directory."""
    return tmp_path / "spool"
