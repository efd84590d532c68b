"""The spool: append-only segments of newline-delimited JSON in a directory, crash-safe and bounded.

Segments are named `<boot>-<8 digits>.ndjson`. The writer holds an exclusive lock on the segment it writes, so
that a reader can tell a torn last line of a dead writer from a line that is still being written. Several
processes share a directory; the byte bound is that of the directory, kept whenever a segment is begun: between
two beginnings it may be passed by what the open segments of the other writers grow, and by one batch.
"""

import contextlib
import fcntl
import logging
import os
import stat
from pathlib import Path

from falseok_collector.sinks import Sink

logger = logging.getLogger("falseok")

SUFFIX = ".ndjson"


class SpoolSink(Sink):
    """Appends batches to segments below `directory`."""

    name = "spool"

    def __init__(self, directory: Path, boot: str, *, max_bytes: int, segment_bytes: int) -> None:
        super().__init__()
        self._directory = directory
        self._boot = boot
        self._max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max(max_bytes // 4, 4096))
        self._number = 0
        self._file = -1
        self._size = 0
        self._lines = 0

    @property
    def number(self) -> int:
        """Number of the segment written last; 0 before the first."""
        return self._number

    def write(self, lines: list[bytes]) -> None:
        """Append the lines, all or nothing: a write cut short is undone before `OSError` leaves."""
        if not lines:
            return
        if self._file < 0 or self._size >= self._segment_bytes or self._removed():
            self._next_segment()
        payload = b"\n".join(lines) + b"\n"
        try:
            self._append(payload)
        except OSError:
            self._undo()
            raise
        self._size += len(payload)
        self._lines += len(lines)
        self.counts.sent += len(lines)

    def close(self) -> None:
        """Make the last segment durable and let go of it."""
        self._finish_segment()

    def abandon(self) -> None:
        """Close the inherited segment; its lock stays with the process that writes it."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = -1

    def _append(self, payload: bytes) -> None:
        view = memoryview(payload)
        while view:
            view = view[os.write(self._file, view) :]

    def _undo(self) -> None:
        """Cut a partial write; if even that fails, go on in a new segment and leave a torn line behind."""
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self._finish_segment()

    def _removed(self) -> bool:
        """Whether somebody removed the segment that is being written: what it holds is lost, so is what would follow."""
        if os.fstat(self._file).st_nlink:
            return False
        logger.warning(
            "falseok: a spool segment was removed while it was written; its %d events may be lost",
            self._lines,
        )
        self.counts.lost += self._lines
        self.counts.errors += 1
        self.counts.last_error = FileNotFoundError.__name__
        return True

    def _next_segment(self) -> None:
        self._finish_segment()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._make_room()
        path = self._directory / f"{self._boot}-{self._number + 1:08d}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self._file).st_nlink:
                raise FileNotFoundError(f"{path} was taken for a finished segment and dropped")
        except OSError:
            self.abandon()
            path.unlink(missing_ok=True)
            raise
        self._size, self._lines, self._number = 0, 0, self._number + 1

    def _finish_segment(self) -> None:
        if self._file < 0:
            return
        descriptor, self._file = self._file, -1
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _make_room(self) -> None:
        """Drop the oldest finished segments until one more fits below the bound, and count what they held."""
        segments = sorted(self._segments())
        total = sum(size for _, _, size in segments)
        for _, path, size in segments:
            if total + self._segment_bytes <= self._max_bytes:
                return
            lines = _drop(path)
            if lines is None:
                continue
            self.counts.spilled += lines
            self.counts.segments_dropped += 1
            total -= size

    def _segments(self) -> list[tuple[float, Path, int]]:
        found: list[tuple[float, Path, int]] = []
        for path in self._directory.glob(f"*{SUFFIX}"):
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_mtime, path, status.st_size))
        return found


def _drop(path: Path) -> int | None:
    """Remove a segment that nobody writes and count its lines; None when that is not possible.

    Then it has a writer, is gone already, or is not ours to read or remove: the next oldest has to go.
    The lock is held until the segment is removed, so that a writer that has just created it notices.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            path.unlink()
    except OSError:
        return None
    return lines


def open_regular(path: Path) -> int:
    """A descriptor to read from, of a regular file only. Raises `OSError`; never waits, not even for a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor
