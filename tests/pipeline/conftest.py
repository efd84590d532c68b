"""What most tests of the pipeline need: a data directory and a store of their own, both in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """A data directory in which nothing is yet."""
    return DataDirectory(tmp_path / "data")


@pytest.fixture
def store(data: DataDirectory) -> Iterator[EmbeddedStore]:
    """An empty store with the schema of this release."""
    with EmbeddedStore(data.store) as opened:
        opened.migrate(1)
        yield opened
