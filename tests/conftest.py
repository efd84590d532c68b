"""What every test run needs, whoever started it."""

import signal
from collections.abc import Iterator

import pytest
from tests.kafka.broker import free_ports
from tests.pipeline.http_front import RunningFront, running_front


def pytest_configure() -> None:
    """A shell ignores SIGINT for what it starts with `&`, and children inherit that: Ctrl-C could not be tested."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFront]:
    """ClickHouse's HTTP interface over chDB, in a process of its own."""
    (port,) = free_ports(1)
    with running_front(tmp_path_factory.mktemp("front") / "store", port) as running:
        yield running
