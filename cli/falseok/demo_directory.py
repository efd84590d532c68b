"""The directory a demo may fill and empty. Deletes only what carries the demo's own mark, never anything else."""

import os
import shutil
import tempfile
from pathlib import Path

from falseok.errors import CliError

MARK = ".falseok-demo"
"""File that says: this directory was made by `falseok demo`, everything in it may go."""

_MARK_TEXT = "Made by `falseok demo`, which empties this directory each time it runs.\n"
_DEFAULT_NAME = ".demo"


def default_directory(here: Path) -> Path:
    """`.demo` beside where the demo runs, or a fresh temporary directory where nothing can be written."""
    wanted = here / _DEFAULT_NAME
    if os.access(wanted if wanted.exists() else here, os.W_OK):
        return wanted
    return Path(tempfile.mkdtemp(prefix="falseok-demo-"))


def as_seen_from(here: Path, path: Path) -> Path:
    """The path as a person in `here` would type it."""
    return path.relative_to(here) if path.is_relative_to(here) else path


def prepared(directory: Path) -> Path:
    """The directory, empty but for the mark.

    Raises:
        CliError: it is a link, or holds something that no demo made; nothing was touched.
    """
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise CliError(
            f"{directory} is not a plain directory; the demo empties its directory and follows no links.",
            hint="Name another one with --data.",
        )
    if directory.exists() and any(directory.iterdir()) and not (directory / MARK).is_file():
        raise CliError(
            f"{directory} is not empty and was not made by the demo, so it is left alone.",
            hint="Name an empty or new directory with --data.",
        )
    directory.mkdir(parents=True, exist_ok=True)
    # The mark goes first and is emptied last: a demo that is killed in between can still clean up after itself.
    (directory / MARK).write_text(_MARK_TEXT)
    for entry in directory.iterdir():
        if entry.name != MARK:
            _remove(entry)
    return directory


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
