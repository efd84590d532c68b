"""The directory a demo may empty."""

from pathlib import Path

import pytest

from falseok.demo_directory import MARK, as_seen_from, default_directory, prepared
from falseok.errors import CliError


def test_new_directory_is_made_and_marked(tmp_path: Path) -> None:
    """Parents are made too; nothing but the mark is inside."""
    assert [MARK] == [path.name for path in prepared(tmp_path / "a" / "b").iterdir()]


def test_marked_directory_is_emptied_and_links_in_it_are_not_followed(tmp_path: Path) -> None:
    """Everything the demo made goes; what a link in it points to stays."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("stays")
    directory = prepared(tmp_path / "demo")
    (directory / "store").mkdir()
    (directory / "store" / "part").write_text("goes")
    (directory / "link").symlink_to(precious)
    assert [MARK] == [path.name for path in prepared(directory).iterdir()]
    assert "stays" == (precious / "file").read_text()


@pytest.mark.parametrize("kind", ["full", "link", "file"])
def test_anything_else_is_refused_and_untouched(tmp_path: Path, kind: str) -> None:
    """A directory with foreign files, a link to a marked one, and a file."""
    target = tmp_path / "target"
    if kind == "full":
        target.mkdir()
        (target / "mine").write_text("x")
    elif kind == "link":
        target.symlink_to(prepared(tmp_path / "marked"))
    else:
        target.write_text("x")
    with pytest.raises(CliError) as caught:
        prepared(target)
    assert "--data" in caught.value.hint
    assert target.is_symlink() or target.is_file() or (target / "mine").read_text() == "x"


def test_default_is_beside_the_reader(tmp_path: Path) -> None:
    """A writable place gets `.demo`, shown as the reader would type it."""
    assert tmp_path / ".demo" == default_directory(tmp_path)
    assert Path(".demo") == as_seen_from(tmp_path, tmp_path / ".demo")
    assert Path("/elsewhere/x") == as_seen_from(tmp_path, Path("/elsewhere/x"))


def test_unwritable_place_gives_a_temporary_directory() -> None:
    """Where nothing can be written the demo still runs."""
    directory = default_directory(Path("/proc/self"))
    try:
        assert directory.name.startswith("falseok-demo-")
        assert directory.is_dir()
    finally:
        directory.rmdir()
