"""How far each spool segment is durable in the store, kept in one small file that is replaced as a whole."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from falseok_pipeline.durable_files import write_durably
from falseok_pipeline.errors import PipelineError


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    segments: dict[str, int]


class Offsets:
    """Committed byte offsets by segment path."""

    def __init__(self, path: Path) -> None:
        """Read the file when there is one.

        Raises:
            PipelineError: it is there and cannot be understood. Deleting it is safe: everything is read again.
        """
        self._path = path
        self._segments = _read(path)

    def of(self, segment: str) -> int:
        """Committed offset of a segment, 0 for an unknown one."""
        return self._segments.get(segment, 0)

    def known(self) -> frozenset[str]:
        """Segments with an offset."""
        return frozenset(self._segments)

    def commit(self, positions: Mapping[str, int]) -> None:
        """Note the positions durably. Raises `OSError`; the old offsets then stay in force."""
        self._replace({**self._segments, **positions})

    def forget(self, segments: Iterable[str]) -> None:
        """Drop segments that are gone. Raises `OSError` as `commit`."""
        gone = frozenset(segments) & self._segments.keys()
        if gone:
            self._replace({name: offset for name, offset in self._segments.items() if name not in gone})

    def _replace(self, segments: dict[str, int]) -> None:
        if segments != self._segments:
            write_durably(self._path, msgspec.json.encode(_Document(version=1, segments=segments)))
            self._segments = segments


def _read(path: Path) -> dict[str, int]:
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise PipelineError(
            f"{path} cannot be understood ({error}). Delete it to read all spools again from the start: "
            "events that are stored already stay single."
        ) from error
    return document.segments
