"""What several of the lab's tests need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.stand_in_cache import REPOSITORY, Progress, make_cache

from falseok_lab.pair import PairSettings, down, status


@pytest.fixture
def progress() -> Progress:
    """A reporter that keeps what it hears."""
    return Progress()


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[PairSettings]:
    """Settings for a pair of stand-ins named `pair`; whatever a test leaves running is ended."""
    chosen = PairSettings(
        name="pair",
        data=tmp_path / "data",
        cache=make_cache(tmp_path / "cache"),
        collector_source=REPOSITORY,
        memory_needed_bytes=1,
        start_timeout_seconds=30,
    )
    yield chosen
    if status("pair", chosen.data) is not None:
        down("pair", chosen.data, Progress())
