"""Tails several spool directories at once: fair between processes, patient with writers, honest about losses.

It hands out lines and commits their places; what a line says is not its business.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from falseok_collector.events import MAX_LINE_BYTES
from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.sources import Batch, Slice, SourceState
from falseok_pipeline.sources.batch_building import STANDARD, BatchBuilder, BatchLimits
from falseok_pipeline.sources.offsets import Offsets
from falseok_pipeline.sources.segments import (
    Listing,
    Piece,
    Segment,
    delete_consumed,
    grouped_by_boot,
    has_live_writer,
    list_directory,
    read_piece,
)

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 10.0
"""A segment is deleted only when its last write is that old: its writer may not have locked it yet."""


@dataclass(frozen=True)
class SpoolDirectory:
    """A spool, and whether its segments are deleted once they are stored."""

    path: Path
    delete_consumed: bool = False


@dataclass
class _Progress:
    """What is known of one segment that is there."""

    segment: Segment
    handed: int
    size: int
    finished: bool = False
    """Handed out to its end, and nobody will write to it again."""


class SpoolSource:
    """A `Source` over spool directories that may appear, grow and vanish at any time."""

    def __init__(
        self,
        directories: Callable[[], Iterable[SpoolDirectory]],
        offsets: Offsets,
        wall_seconds: Callable[[], float],
        limits: BatchLimits = STANDARD,
    ) -> None:
        """`directories` is asked at every poll; `wall_seconds` gives the time since the epoch."""
        self._directories = directories
        self._offsets = offsets
        self._wall_seconds = wall_seconds
        self._limits = limits
        self._progress: dict[str, _Progress] = {}
        self._reported: dict[str, str] = {}
        self._deletable: frozenset[Path] = frozenset()
        self._turn = 0
        self._lost_segments = 0

    def poll(self) -> Batch | None:
        """See `Source.poll`."""
        batch = BatchBuilder(self._limits)
        groups = self._look(batch)
        share_bytes = max(self._limits.size_bytes // max(len(groups), 1), self._limits.share_bytes)
        self._turn += 1
        for index in range(len(groups)):
            if batch.full:
                break
            self._read_group(groups[(self._turn + index) % len(groups)], share_bytes, batch)
        built = batch.build()
        if built is None:
            self._delete_stored()
        return built

    def commit(self, positions: Mapping[str, int]) -> None:
        """See `Source.commit`. Also deletes what is stored to its end, where that is wanted."""
        self._offsets.commit(positions)
        self._delete_stored()

    def state(self) -> SourceState:
        """See `Source.state`."""
        return SourceState(lag_bytes=self.lag_bytes(), lost_segments=self._lost_segments)

    def caught_up(self) -> bool:
        """See `Source.caught_up`. A poll looks at all there is."""
        return True

    def close(self) -> None:
        """See `Source.close`. Nothing is held open between polls."""

    def lag_bytes(self) -> int:
        """Bytes that are there and not yet committed, as of the last poll."""
        return sum(max(seen.size - self._offsets.of(key), 0) for key, seen in self._progress.items())

    def lost_segments(self) -> int:
        """Segments that vanished before all of them was read, since the start."""
        return self._lost_segments

    # Looking ----------------------------------------------------------------------------------------------

    def _look(self, batch: BatchBuilder) -> list[list[_Progress]]:
        """What is there now, by process, oldest segment first."""
        directories = tuple(self._directories())
        self._deletable = frozenset(spool.path for spool in directories if spool.delete_consumed)
        sizes: dict[Segment, int] = {}
        for spool in directories:
            sizes |= self._list(spool.path, batch).sizes
        self._miss({segment.key for segment in sizes})
        for segment, size in sizes.items():
            seen = self._progress.get(segment.key)
            if seen is None:
                seen = _Progress(segment, self._offsets.of(segment.key), size)
                self._progress[segment.key] = seen
            seen.size = size
        return [[self._progress[segment.key] for segment in group] for group in grouped_by_boot(sizes)]

    def _list(self, directory: Path, batch: BatchBuilder) -> Listing:
        try:
            listing = list_directory(directory)
        except OSError as error:
            self._report(str(directory), 0, f"the directory cannot be listed: {error}", batch)
            return Listing({}, ())
        for stranger in listing.strangers:
            message = "not named like a segment (<boot>-<8 digits>.ndjson), not read"
            self._report(str(stranger), 0, message, batch)
        return listing

    def _miss(self, present: set[str]) -> None:
        """Notice segments that are gone: stored and deleted, or dropped by their writer before they were read."""
        gone = (self._progress.keys() | self._offsets.known()) - present
        for key in gone:
            seen = self._progress.pop(key, None)
            self._reported.pop(key, None)
            if seen is not None and seen.size > seen.handed:
                self._lost_segments += 1
                logger.error("segment_lost path=%s unread_bytes=%d", key, seen.size - seen.handed)
        try:
            self._offsets.forget(gone)
        except OSError as error:
            logger.warning(
                "offsets_not_forgotten reason=%s", error
            )  # they do no harm; tried again at the next look

    # Reading ----------------------------------------------------------------------------------------------

    def _read_group(self, group: Sequence[_Progress], share_bytes: int, batch: BatchBuilder) -> None:
        """Hand out the next lines of one process, up to its share."""
        limit_bytes = batch.size_bytes + share_bytes
        for seen in group:
            followed = seen is not group[-1]
            while not seen.finished and batch.size_bytes < limit_bytes and not batch.full:
                if not self._read(seen, limit_bytes - batch.size_bytes, batch, followed=followed):
                    break
            if not seen.finished and seen.segment.key not in self._reported:
                return

    def _read(self, seen: _Progress, most_bytes: int, batch: BatchBuilder, *, followed: bool) -> bool:
        """Hand out lines of one segment; False when there is nothing more for now."""
        key = seen.segment.key
        try:
            piece = read_piece(seen.segment, seen.handed, most_bytes, MAX_LINE_BYTES)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._report(key, seen.handed, f"cannot be read: {error}", batch)
            return False
        self._reported.pop(key, None)
        seen.size = piece.size
        if piece.size < seen.handed:
            # The writer took a half-written batch back. What is read twice is stored once.
            logger.warning("segment_shrank path=%s offset=%d size=%d", key, seen.handed, piece.size)
            seen.handed = 0
            return True
        if piece.lines:
            batch.add(Slice(key, seen.handed, piece.lines))
            seen.handed += len(piece.lines)
        if piece.at_end:
            self._end_reached(seen, piece, batch, followed=followed)
        return not piece.at_end

    def _end_reached(self, seen: _Progress, piece: Piece, batch: BatchBuilder, *, followed: bool) -> None:
        if piece.rest:
            if not followed and has_live_writer(seen.segment):
                return
            message = "the last line has no end: its writer died while it wrote"
            letter = DeadLetter(Reason.TORN_LINE, message, seen.segment.key, seen.handed, piece.rest)
            batch.add_dead_letter(letter, position=piece.size)
            seen.handed = piece.size
        seen.finished = followed

    def _report(self, place: str, offset: int, message: str, batch: BatchBuilder) -> None:
        """One dead letter for what cannot be read, until it changes; it is tried again at every poll."""
        if self._reported.get(place) != message:
            self._reported[place] = message
            logger.error("unreadable place=%s reason=%s", place, message)
            batch.add_dead_letter(DeadLetter(Reason.UNREADABLE, message, place, offset))

    # Cleaning up ------------------------------------------------------------------------------------------

    def _delete_stored(self) -> None:
        before_seconds = self._wall_seconds() - SETTLE_SECONDS
        for key, seen in self._progress.items():
            stored = self._offsets.of(key)
            # An empty file may belong to a writer that has not come to lock it.
            unused = stored == 0 and not seen.finished
            if seen.segment.directory not in self._deletable or stored < seen.size or unused:
                continue
            try:
                delete_consumed(seen.segment, stored, before_seconds)
            except OSError as error:
                logger.warning("segment_not_deleted path=%s reason=%s", key, error)
