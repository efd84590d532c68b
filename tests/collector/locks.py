"""What a reader of the spool sees of its writers."""

import fcntl
from pathlib import Path


def is_locked(path: Path) -> bool:
    """Whether a reader would find a writer on the segment."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
