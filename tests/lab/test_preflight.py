"""Checks before something long begins."""

from pathlib import Path

import pytest

from falseok_lab.errors import LabError
from falseok_lab.preflight import GIB, require_disk, require_memory, require_writable


def test_short_memory_says_how_much_is_needed_and_there() -> None:
    """Both figures, and what to do."""
    with pytest.raises(LabError, match=r"about 4\.0 GiB .* 1\.5 GiB are available.*falseok lab down"):
        require_memory(4 * GIB, available_bytes=3 * GIB // 2)


def test_enough_memory_passes() -> None:
    """The bound itself is enough; without a figure the system is asked."""
    require_memory(GIB, available_bytes=GIB)
    require_memory(1)


def test_short_disk_names_the_place(tmp_path: Path) -> None:
    """More than any disk has is refused; a byte is not."""
    require_disk(tmp_path, 1)
    with pytest.raises(LabError, match=str(tmp_path)):
        require_disk(tmp_path, 1 << 60)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file where a folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot be made"):
        require_writable(tmp_path / "file" / "lab")
