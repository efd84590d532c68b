"""Replacing small files as a whole."""

from pathlib import Path

import pytest

from falseok_pipeline.durable_files import write_durably


def test_the_new_content_replaces_the_old_and_nothing_else_stays(tmp_path: Path) -> None:
    """No temporary file is left beside it."""
    path = tmp_path / "offsets.json"
    write_durably(path, b"old")
    write_durably(path, b"new")
    assert b"new" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_a_failed_write_keeps_the_old_content(tmp_path: Path) -> None:
    """What cannot be replaced stays as it was, and the attempt leaves nothing behind."""
    path = tmp_path / "target"
    (path / "in the way").mkdir(parents=True)
    with pytest.raises(OSError):
        write_durably(path, b"new")
    assert [path] == list(tmp_path.iterdir())
