"""Opens log files, plain or compressed, and hands out their lines, whatever is in them. Knows nothing of vLLM."""

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from falseok_pipeline.errors import PipelineError

MAX_LINE_BYTES = 1_048_576
"""A longer line is read to its end but only its beginning is kept."""

HEAD_BYTES = 262_144
"""How much of a file is looked at before it is read, to find its time."""

_BLOCK_BYTES = 1_048_576
_OPENERS: Sequence[tuple[bytes, Callable[[IO[bytes]], Any]]] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
)
_DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)
_ROTATION = re.compile(r"(?:\.(?:gz|bz2|xz|old)|\.\d{1,4}|[-.]\d{8}(?:[-T]?\d{4,6})?|[-.]\d{4}-\d\d-\d\d)+$")
_NUMBER = re.compile(r"\.(\d{1,4})(?:\.(?:gz|bz2|xz))?$")


class LogInputError(PipelineError):
    """A file cannot be read as a log; the message says which one and what to do."""


@dataclass(slots=True)
class RawLine:
    """One line as it is in the file, without its line break."""

    number: int
    byte_offset: int
    """In the decompressed text."""
    data: bytes
    length: int
    """Bytes of the whole line; more than `len(data)` where it was cut."""


@dataclass(frozen=True)
class LogFile:
    """One file and how to read it. Creating this object touches nothing."""

    path: Path

    @property
    def stem(self) -> str:
        """The path without what rotation appended: pieces of one log share it."""
        return _ROTATION.sub("", str(self.path)) or str(self.path)

    @property
    def age(self) -> int:
        """Rotation number: the higher the older. 0 for the file still written to, or where names do not tell."""
        found = _NUMBER.search(self.path.name)
        return int(found.group(1)) if found else 0

    def size_bytes(self) -> int:
        """Bytes on disk. Raises `LogInputError`."""
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def modified_seconds(self) -> float:
        """When it was last written to. Raises `LogInputError`."""
        try:
            return self.path.stat().st_mtime
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def head(self) -> bytes:
        """The beginning, decompressed. Raises `LogInputError`."""
        with _opened(self.path) as (_, file):
            try:
                return bytes(file.read(HEAD_BYTES))
            except _DAMAGE as error:
                raise _unreadable(self.path, error) from error

    def digest(self) -> str:
        """SHA-256 of the decompressed text. Reads all of it. Raises `LogInputError`."""
        summed = sha256()
        with _opened(self.path) as (_, file):
            try:
                while block := file.read(_BLOCK_BYTES):
                    summed.update(block)
            except _DAMAGE as error:
                raise _unreadable(self.path, error) from error
        return summed.hexdigest()

    def lines(self, told: Callable[[int], None] = lambda _: None) -> Iterator[RawLine]:
        """Every line, in bounded memory. `told` hears how many bytes of the file on disk are behind us.

        Raises:
            LogInputError: the file cannot be opened, or is damaged further on; the lines before were handed out.
        """
        with _opened(self.path) as (raw, file):
            offset = number = 0
            while True:
                try:
                    data = file.readline(MAX_LINE_BYTES)
                    length = len(data)
                    while length and not data.endswith(b"\n") and (more := file.readline(_BLOCK_BYTES)):
                        length += len(more)
                        if more.endswith(b"\n"):
                            length -= 1
                            break
                except _DAMAGE as error:
                    raise _unreadable(self.path, error, number) from error
                if not data:
                    return
                number += 1
                body = data.removesuffix(b"\n")
                ended = len(body) < len(data)
                full = length - 1 if ended else length
                yield RawLine(number, offset, body, full)
                offset += length if ended else full + 1
                if not number % 2048:
                    told(raw.tell())


class _Opened:
    """The file on disk and its decompressed text; closes both."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> tuple[IO[bytes], Any]:
        try:
            self._raw: BufferedReader = self._path.open("rb")
        except OSError as error:
            raise _unreadable(self._path, error) from error
        try:
            magic = self._raw.peek(6)[:6]
        except OSError as error:
            self._raw.close()
            raise _unreadable(self._path, error) from error
        opener = next((make for start, make in _OPENERS if magic.startswith(start)), None)
        self._text: Any = opener(self._raw) if opener is not None else self._raw
        return self._raw, self._text

    def __exit__(self, *_: object) -> None:
        self._text.close()
        self._raw.close()


def _opened(path: Path) -> _Opened:
    return _Opened(path)


def _unreadable(path: Path, error: BaseException, lines_read: int = 0) -> LogInputError:
    if isinstance(error, FileNotFoundError):
        return LogInputError(
            f"{path} does not exist. Check the path; patterns are expanded by the shell, not here."
        )
    if isinstance(error, IsADirectoryError):
        return LogInputError(f"{path} is a directory. Name the log files in it.")
    if isinstance(error, PermissionError):
        return LogInputError(f"{path} may not be read by this user. Copy it, or change its permissions.")
    what = getattr(error, "strerror", None) or str(error) or type(error).__name__
    where = f" after line {lines_read:,}" if lines_read else ""
    return LogInputError(
        f"{path} cannot be read{where}: {what}. A compressed file that was cut short can be recovered with "
        f"`gzip -dc FILE > FILE.txt` as far as it goes."
    )


def grouped(paths: Iterable[Path]) -> list[list[LogFile]]:
    """The files of one log together (rotated pieces share a name), each path once, the oldest piece first by name."""
    groups: dict[str, list[LogFile]] = {}
    for path in dict.fromkeys(paths):
        file = LogFile(path)
        groups.setdefault(file.stem, []).append(file)
    return [sorted(group, key=lambda file: (-file.age, str(file.path))) for group in groups.values()]


def distinct(group: Sequence[LogFile]) -> tuple[list[LogFile], list[LogFile]]:
    """The files of a group with different content, and those that repeat one (a copy, or its compressed form)."""
    if len(group) < 2:
        return list(group), []
    kept: list[LogFile] = []
    repeated: list[LogFile] = []
    seen: set[str] = set()
    for file in group:
        digest = file.digest()
        (repeated if digest in seen else kept).append(file)
        seen.add(digest)
    return kept, repeated
