"""One builder at a time: a lock between processes, released by the system when its holder dies."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from falseok_lab.report import Reporter

SECONDS_BETWEEN_TRIES = 1.0


@contextmanager
def held(lock: Path, what: str, reporter: Reporter) -> Iterator[None]:
    """Hold the lock file `lock`; while another process holds it, wait and say so."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        waited = 0.0
        while not _taken(file.fileno()):
            reporter.detail(f"another process is building {what}; waiting for {waited:.0f} s")
            time.sleep(SECONDS_BETWEEN_TRIES)
            waited += SECONDS_BETWEEN_TRIES
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
