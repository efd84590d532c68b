"""Stores filled once for all tests that only read them."""

from pathlib import Path

import pytest
from tests.cli.command_line import HEALTHY_027, MISMATCH_027, MISMATCH_032, folded


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of the incompatible pair on vLLM 0.27.0: one incident, 32 requests."""
    return folded(tmp_path_factory.mktemp("broken"), [MISMATCH_027])


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of the healthy pair: no incident."""
    return folded(tmp_path_factory.mktemp("healthy"), [HEALTHY_027])


@pytest.fixture(scope="session")
def both_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of the incompatible pairs of both versions: a corrupt incident and one that failed closed."""
    return folded(tmp_path_factory.mktemp("both"), [MISMATCH_027, MISMATCH_032])
