"""A broker and a store for things to break around, and the table of what came of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.outcomes import OUTCOMES, table
from tests.kafka.broker import Broker, free_ports, running_broker
from tests.pipeline.http_front import RunningFront, running_front

from falseok_pipeline.server_store import ServerAddress, ServerStore


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("chaos-kafka")) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Broker:
    """The broker, up."""
    _broker.ensure_started()
    return _broker


@pytest.fixture
def topics(broker: Broker, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Topics of this test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:100]
    broker.create_topics(f"{name}.events.v1", partitions=6)
    broker.create_topics(f"{name}.engines.v1", f"{name}.dead", partitions=1)
    return f"{name}.events.v1", f"{name}.engines.v1"


@pytest.fixture
def front(tmp_path: Path) -> Iterator[RunningFront]:
    """An empty store that several processes share, with the schema of this release."""
    (port,) = free_ports(1)
    with running_front(tmp_path / "shared-store", port) as running:
        address = ServerAddress.parse(running.store_url)
        with ServerStore(address, use_database=False) as store:
            store.create_database()
        with ServerStore(address) as store:
            store.migrate(1)
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was lost, counted double and paged twice."""
    if OUTCOMES:
        terminalreporter.section("chaos")
        for line in table():
            terminalreporter.write_line(line)
