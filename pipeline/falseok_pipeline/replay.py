"""Plays events that were recorded before: reads them, multiplies them, and lays them out as a spool.

A multiplied event keeps everything but its identity, so that a hundred copies of one request are a hundred
requests of the same engines.
"""

import gzip
import lzma
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from falseok_pipeline.errors import PipelineError
from falseok_pipeline.sources.segments import SUFFIX

_OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open}
_IDENTITY_ATTRIBUTES = ("remote_request_id", "last_request_id", "new_owner")
SEGMENT_BYTES = 8 * 1024 * 1024


def read_lines(path: Path) -> Iterator[bytes]:
    """Events of a `.ndjson` file (also `.gz`, `.xz`) or of all segments of a directory, without line breaks.

    Raises:
        PipelineError: there is no such file or directory, or it cannot be read.
    """
    try:
        if path.is_dir():
            for segment in sorted(path.glob(f"*{SUFFIX}*")):
                yield from read_lines(segment)
            return
        opener = _OPENERS.get(path.suffix)
        with opener(path) if opener is not None else path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield line.rstrip(b"\n")
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise PipelineError(f"{path} cannot be read: {error}") from error


def multiply(lines: Iterable[bytes], times: int, *, shift_micros: int = 0) -> Iterator[bytes]:
    """Every event `times` times. Copy 0 is the original; in each further copy boot, id, request, transfer and
    external ids are its own, consistently, and the wall clock is `shift_micros` later than in the copy before.

    Holds all lines in memory. Raises `msgspec.DecodeError` for a line that is not a JSON object.
    """
    originals = list(lines)
    yield from originals
    for copy in range(1, times):
        suffix = f"x{copy}"
        for line in originals:
            yield _renamed(line, suffix, copy * shift_micros)


def write_spool(
    directory: Path, lines: Iterable[bytes], *, segment_bytes: int = SEGMENT_BYTES
) -> tuple[Path, ...]:
    """Lay lines out as finished segments of a writer of its own in `directory`; returns the segments.

    A segment is written beside its name and renamed, so that a reader sees it whole. Raises `OSError`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    boot = f"replay{secrets.token_hex(6)}"
    written: list[Path] = []
    for content in _chunks(lines, segment_bytes):
        segment = directory / f"{boot}-{len(written) + 1:08d}{SUFFIX}"
        temporary = segment.with_suffix(".tmp")
        temporary.write_bytes(content)
        temporary.rename(segment)
        written.append(segment)
    return tuple(written)


def _chunks(lines: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    chunk = bytearray()
    for line in lines:
        chunk += line
        chunk += b"\n"
        if len(chunk) >= most_bytes:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _renamed(line: bytes, suffix: str, later_micros: int) -> bytes:
    event: dict[str, Any] = msgspec.json.decode(line)
    event["boot"] += suffix
    event["id"] = f"{event['boot']}-{event['seq']}"
    event["ts"] += later_micros
    for name in ("request_id", "external_id", "transfer_id"):
        if event.get(name):
            event[name] += suffix
    attributes = event.get("attrs", {})
    for name in _IDENTITY_ATTRIBUTES:
        if attributes.get(name):
            attributes[name] += suffix
    if attributes.get("engine_request_ids"):
        attributes["engine_request_ids"] = [name + suffix for name in attributes["engine_request_ids"]]
    return msgspec.json.encode(event)
