"""Spool segments on disk: finding them, reading complete lines, and telling a dead writer from a slow one.

A segment is `<boot>-<8 digits>.ndjson`. Its writer holds an exclusive lock on it; it is finished when a later
segment of the same boot exists or nobody holds the lock.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".ndjson"
_NAME = re.compile(r"(?P<boot>[0-9a-z]+)-(?P<number>\d{8})\.ndjson")


@dataclass(frozen=True, order=True)
class Segment:
    """One segment file. Orders by boot, then number."""

    directory: Path
    boot: str
    number: int

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / f"{self.boot}-{self.number:08d}{SUFFIX}"

    @property
    def key(self) -> str:
        """Name under which its offset is kept."""
        return str(self.path)


@dataclass(frozen=True)
class Listing:
    """The segments of a directory in order with their sizes, and `.ndjson` files that are not named like one."""

    sizes: dict[Segment, int]
    strangers: tuple[Path, ...]


def list_directory(directory: Path) -> Listing:
    """What lies in a spool directory now; empty when it is gone. Raises `OSError` when it cannot be listed."""
    sizes: dict[Segment, int] = {}
    strangers: list[Path] = []
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return Listing({}, ())
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            sizes[Segment(directory, match["boot"], int(match["number"]))] = _size(entry)
        elif entry.name.endswith(SUFFIX):
            strangers.append(directory / entry.name)
    return Listing(dict(sorted(sizes.items())), tuple(sorted(strangers)))


@dataclass(frozen=True)
class Piece:
    """Bytes read from a segment: complete lines, and whether they reach to the end of what is there."""

    lines: bytes
    rest: bytes
    """What stands behind the last line break, up to the end of the file; empty unless `at_end`."""
    at_end: bool
    size: int


def read_piece(segment: Segment, offset: int, most_bytes: int, longest_line_bytes: int) -> Piece:
    """Complete lines from `offset` on, about `most_bytes` of them but at least one when there is one.

    A line beyond `longest_line_bytes` is handed out cut in the middle, so that memory stays bounded: its parts
    are bad lines of their own.

    Raises:
        FileNotFoundError: the segment is gone.
        OSError: it cannot be read, or is not a regular file.
    """
    descriptor = _open_regular(segment.path)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        file.seek(min(offset, size))
        data = file.read(most_bytes)
        cut = data.rfind(b"\n") + 1
        while not cut and len(data) == most_bytes and most_bytes <= longest_line_bytes:
            most_bytes *= 2
            data += file.read(most_bytes - len(data))
            cut = data.rfind(b"\n") + 1
        at_end = offset + len(data) >= size
        if not cut and not at_end and len(data) > longest_line_bytes:
            return Piece(data, b"", at_end=False, size=size)
    return Piece(data[:cut], data[cut:] if at_end else b"", at_end=at_end, size=size)


def has_live_writer(segment: Segment) -> bool:
    """Whether somebody holds the lock of the segment. Raises `OSError` when it cannot be asked."""
    with os.fdopen(_open_regular(segment.path), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def delete_consumed(segment: Segment, offset: int, settled_before_seconds: float) -> None:
    """Delete a segment that was read to its end, unless somebody could still write to it.

    `settled_before_seconds` (epoch): a younger file is kept, for its writer may not have locked it yet.
    Raises `OSError` when it cannot be deleted.
    """
    try:
        descriptor = _open_regular(segment.path)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_size != offset or status.st_mtime > settled_before_seconds:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if os.fstat(descriptor).st_size == offset:
            segment.path.unlink(missing_ok=True)


def grouped_by_boot(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Segments of each boot, in order."""
    group: list[Segment] = []
    for segment in segments:
        if group and segment.boot != group[-1].boot:
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def _open_regular(path: Path) -> int:
    # Without O_NONBLOCK, opening a pipe that somebody put there would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor
