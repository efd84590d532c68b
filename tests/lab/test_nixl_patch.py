"""The delay of NIXL's progress thread in an engine's environment."""

import os
from pathlib import Path

import pytest

from falseok_lab.errors import LabError
from falseok_lab.nixl_patch import patch_progress_thread

SOURCE = "        agent_config.listenPort = 1\n        agent_config.pthrDelay = 0\n        agent_config.lthrDelay = 100000\n"


def installed(site_packages: Path, text: str) -> Path:
    """NIXL as it lies in an environment."""
    source = site_packages / "nixl_cu13" / "_api.py"
    source.parent.mkdir()
    source.write_text(text)
    return source


def test_the_delay_is_set_once_and_a_file_shared_with_the_installers_cache_is_untouched(
    tmp_path: Path,
) -> None:
    """The installer hard-links its cache into environments: writing in place would change all of them."""
    source = installed(tmp_path, SOURCE)
    os.link(source, tmp_path / "cached.py")
    patch_progress_thread(tmp_path)
    patch_progress_thread(tmp_path)
    assert SOURCE.replace("pthrDelay = 0", "pthrDelay = 1000") == source.read_text()
    assert SOURCE == (tmp_path / "cached.py").read_text()


def test_another_nixl_is_an_error_not_a_slow_lab(tmp_path: Path) -> None:
    """Without the patch two engines starve each other and corrupt answers of their own."""
    with pytest.raises(LabError, match="NIXL is not where it should be"):
        patch_progress_thread(tmp_path)
    installed(tmp_path, "agent_config.delay = 0\n")
    with pytest.raises(LabError, match="cannot be slowed down"):
        patch_progress_thread(tmp_path)
