"""The spool a sink falls back to while its receiver is away, and its draining in order.

Segments are those of `falseok_collector.sinks.spool`. Beside them every process keeps `<boot>.lock` locked for as
long as it lives, so that segments of a dead process are told from those of a slow one: whoever gets the lock of the
dead may drain what it left. Delivery is at least once: a segment that was sent in part by a process that died is
sent again in full.
"""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from falseok_collector.events import MAX_LINE_BYTES
from falseok_collector.sinks.spool import SpoolSink, open_regular

CHUNK_BYTES = 1024**2
_SEGMENT = re.compile(r"(?P<boot>[0-9a-z]+)-(?P<number>\d{8})\.ndjson")
_LOCK_SUFFIX = ".lock"
_LOCK_ATTEMPTS = 100
_LOCK_PAUSE_SECONDS = 0.01


class Name(NamedTuple):
    """A segment by boot and number. Orders by both."""

    boot: str
    number: int


class _Reading(msgspec.Struct):
    """The segment that is being drained; locked, so that no writer drops it for room."""

    name: Name
    path: Path
    descriptor: int
    offset: int = 0


class Backlog:
    """Segments of this process and, once adopted, of one dead process at a time. For one thread."""

    def __init__(self, directory: Path, boot: str, *, max_bytes: int, segment_bytes: int) -> None:
        self.directory = directory
        self._torn = 0
        self._boot = boot
        self._spool = SpoolSink(directory, boot, max_bytes=max_bytes, segment_bytes=segment_bytes)
        self._lock = -1
        self._lines: dict[int, int] = {}
        self._adopted: tuple[str, int] | None = None
        self._reading: _Reading | None = None

    @property
    def waiting(self) -> int:
        """Events of this process that wait here."""
        return sum(self._lines.values())

    @property
    def spilled(self) -> tuple[int, int]:
        """Events and segments that this process dropped because the directory passed its bound."""
        return self._spool.counts.spilled, self._spool.counts.segments_dropped

    def take_torn(self) -> int:
        """Lines found without an end since the last call: a dead process left them, nobody can read them."""
        torn, self._torn = self._torn, 0
        return torn

    def write(self, lines: list[bytes]) -> None:
        """Append the lines, all or nothing. Raises `OSError`."""
        if self._lock < 0:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = _lock_of_ones_own(self._lock_path(self._boot))
        self._spool.write(lines)
        self._lines[self._spool.number] = self._lines.get(self._spool.number, 0) + len(lines)

    def next_lines(self) -> list[bytes]:
        """The oldest lines that wait, about a megabyte of them: first this process's own, then adopted ones.

        Empty when nothing waits. Answers the same until `sent` is called. Raises `OSError`.
        """
        while self._reading is not None or self._begin():
            reading = self._reading
            assert reading is not None  # noqa: S101 - `_begin` has set it
            data = os.pread(reading.descriptor, CHUNK_BYTES, reading.offset)
            if data and b"\n" not in data:
                data = os.pread(reading.descriptor, MAX_LINE_BYTES + CHUNK_BYTES, reading.offset)
            complete = data[: data.rfind(b"\n") + 1]
            if complete:
                return complete[:-1].split(b"\n")
            self._torn += bool(data)
            self._finish()
        return []

    def sent(self, lines: Iterable[bytes]) -> None:
        """The first so many of `next_lines` were delivered; a segment without more is deleted. Raises `OSError`."""
        reading = self._reading
        if reading is None:
            return
        for line in lines:
            reading.offset += len(line) + 1
            if reading.name.boot == self._boot and self._lines.get(reading.name.number, 0) > 0:
                self._lines[reading.name.number] -= 1
        if reading.offset >= os.fstat(reading.descriptor).st_size:
            self._finish()

    def adopt(self) -> bool:
        """Look for what dead processes left; whether there is something to drain. Raises `OSError`."""
        if self._adopted is not None or self._reading is not None:
            return True
        with contextlib.suppress(FileNotFoundError):
            boots = {name.boot for name, _ in self._segments()}
            locks = {path.name.removesuffix(_LOCK_SUFFIX) for path in self.directory.glob(f"*{_LOCK_SUFFIX}")}
            for boot in sorted((boots | locks) - {self._boot}):
                if self._adopt(boot):
                    return True
        return False

    def close(self) -> None:
        """Make durable what waits and let go of it; whoever comes next drains it."""
        try:
            self._spool.close()
            if self._adopted and not any(name.boot == self._adopted[0] for name, _ in self._segments()):
                self._release()
        finally:
            if self._lock >= 0 and not self.waiting:
                self._lock_path(self._boot).unlink(missing_ok=True)
            self._let_go()

    def abandon(self) -> None:
        """Close inherited descriptors; the locks stay with the process that took them."""
        self._spool.abandon()
        self._let_go()

    def _let_go(self) -> None:
        adopted = self._adopted[1] if self._adopted else -1
        for descriptor in (self._lock, adopted, self._reading.descriptor if self._reading else -1):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._lock, self._adopted, self._reading = -1, None, None

    # Reading ------------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Open the oldest segment that waits; whether there is one."""
        if self._lines:
            self._spool.close()  # also the segment being written is drained; the next write begins another
        names = self._segments()
        there = {name.number for name, _ in names if name.boot == self._boot}
        # Segments that others dropped to keep the bound are gone, and counted by them.
        self._lines = {number: lines for number, lines in self._lines.items() if number in there}
        boots = [self._boot] + ([self._adopted[0]] if self._adopted else [])
        try:
            for boot in boots:
                for name, path in names:
                    if name.boot == boot and self._open(name, path):
                        return True
        except BlockingIOError:  # another writer looks whether to drop it: later, for the order must hold
            return False
        self._release()
        return False

    def _open(self, name: Name, path: Path) -> bool:
        """Start with a segment; False when it is gone or cannot be read. Raises `BlockingIOError`."""
        try:
            descriptor = open_regular(path)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = bool(os.fstat(descriptor).st_nlink)
        except OSError:
            os.close(descriptor)
            raise
        if not there:
            os.close(descriptor)
            return False
        self._reading = _Reading(name, path, descriptor)
        return True

    def _finish(self) -> None:
        reading, self._reading = self._reading, None
        if reading is None:
            return
        try:
            reading.path.unlink(missing_ok=True)
        finally:
            os.close(reading.descriptor)
            if reading.name.boot == self._boot:
                self._lines.pop(reading.name.number, None)

    def _segments(self) -> list[tuple[Name, Path]]:
        found: list[tuple[Name, Path]] = []
        try:
            entries = list(os.scandir(self.directory))
        except FileNotFoundError:
            return []
        for entry in entries:
            match = _SEGMENT.fullmatch(entry.name)
            if match is not None and entry.is_file(follow_symlinks=False):
                found.append((Name(match["boot"], int(match["number"])), Path(entry.path)))
        return sorted(found)

    # Ownership ----------------------------------------------------------------------------------------------

    def _adopt(self, boot: str) -> bool:
        """Take over what a process left if it is dead; whether there is something to drain."""
        path = self._lock_path(boot)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._adopted = boot, descriptor
        if any(name.boot == boot for name, _ in self._segments()):
            return True
        self._release()
        return False

    def _release(self) -> None:
        """Nothing that can be read is left of the dead process."""
        if self._adopted is None:
            return
        (boot, descriptor), self._adopted = self._adopted, None
        try:
            self._lock_path(boot).unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def _lock_path(self, boot: str) -> Path:
        return self.directory / f"{boot}{_LOCK_SUFFIX}"


def _lock_of_ones_own(path: Path) -> int:
    """A locked descriptor of this process's lock file. Raises `OSError`.

    A process that tidies up may hold and remove it for a moment, between its creation and its lock.
    """
    for _ in range(_LOCK_ATTEMPTS):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        os.close(descriptor)
    raise BlockingIOError(f"{path} is locked by another process")
