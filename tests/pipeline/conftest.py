"""What most tests of the pipeline need: a data directory and a store of their own, both in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pipeline.servers import fresh_database, real_server

from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """A data directory in which nothing is yet."""
    return DataDirectory(tmp_path / "data")


@pytest.fixture
def store(data: DataDirectory) -> Iterator[ClientStore]:
    """An empty store with the schema of this release: embedded, or on the server of `make test-server`."""
    if real_server():
        with fresh_database(real_server()) as server:
            yield server
        return
    with EmbeddedStore(data.store) as opened:
        opened.migrate(1)
        yield opened


@pytest.fixture(params=["embedded", "http"])
def either_store(request: pytest.FixtureRequest, data: DataDirectory) -> Iterator[ClientStore]:
    """An empty store through each of the two clients; over HTTP it is the server of `make test-server` if one is named."""
    if request.param == "http":
        url = real_server() or request.getfixturevalue("front").store_url
        with fresh_database(url) as server:
            yield server
        return
    with EmbeddedStore(data.store) as opened:
        opened.migrate(1)
        yield opened
