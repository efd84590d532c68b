"""What is checked before something long or large begins: memory, disk, a folder that can be written."""

import os
import shutil
from pathlib import Path

import psutil

from falseok_lab.errors import LabError

GIB = 1 << 30


def require_memory(needed_bytes: int, *, available_bytes: int | None = None) -> None:
    """Check that the machine can give `needed_bytes` now; `available_bytes` is asked of the system when None.

    Raises:
        LabError: it cannot.
    """
    available = psutil.virtual_memory().available if available_bytes is None else available_bytes
    if available < needed_bytes:
        raise LabError(
            f"A pair of this model needs about {needed_bytes / GIB:.1f} GiB of memory, and "
            f"{available / GIB:.1f} GiB are available. End something else (another lab: falseok lab down), "
            "or choose the model tiny."
        )


def require_disk(directory: Path, needed_bytes: int) -> None:
    """Check that the file system of `directory` has room.

    Raises:
        LabError: it has not.
    """
    free = shutil.disk_usage(directory).free
    if free < needed_bytes:
        raise LabError(
            f"An engine's environment needs about {needed_bytes / GIB:.0f} GiB of disk, and {free / GIB:.1f} GiB "
            f"are free at {directory}. Make room, or keep the data somewhere else with --data."
        )


def require_writable(directory: Path) -> None:
    """Make a folder, if it is missing, and check that it can be written.

    Raises:
        LabError: it cannot be made or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"The folder {directory} cannot be made: {error.strerror}. Choose another with --data."
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LabError(f"The folder {directory} cannot be written. Choose another with --data.")
