"""Tailing spools: complete lines once, in fair shares, through every kind of trouble with the files."""

import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from falseok_collector.events import MAX_LINE_BYTES
from falseok_pipeline.dead_letters import Reason
from falseok_pipeline.sources import Batch
from falseok_pipeline.sources.batch_building import STANDARD, BatchLimits
from falseok_pipeline.sources.offsets import Offsets
from falseok_pipeline.sources.spool import SETTLE_SECONDS, SpoolDirectory, SpoolSource


@dataclass
class Spool:
    """A spool directory, and a source over it that can be started anew."""

    path: Path
    offsets_file: Path
    others: list[Path] = field(default_factory=list)
    delete_consumed: bool = False
    now_seconds: float = 1e10
    limits: BatchLimits = STANDARD

    def source(self) -> SpoolSource:
        """A source as a process that was just started has it."""
        return SpoolSource(
            self._directories, Offsets(self.offsets_file), lambda: self.now_seconds, self.limits
        )

    def write(self, name: str, content: bytes) -> Path:
        """Append to a segment."""
        path = self.path / name
        with path.open("ab") as file:
            file.write(content)
        return path

    def _directories(self) -> Iterable[SpoolDirectory]:
        return [SpoolDirectory(path, self.delete_consumed) for path in (self.path, *self.others)]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """An empty spool."""
    path = tmp_path / "spool"
    path.mkdir()
    return Spool(path, tmp_path / "offsets.json")


def texts(batch: Batch | None) -> dict[str, bytes]:
    """Lines by file name."""
    found: dict[str, bytes] = {}
    for piece in batch.slices if batch else ():
        found[Path(piece.source).name] = found.get(Path(piece.source).name, b"") + piece.data
    return found


def drain(source: SpoolSource) -> bytes:
    """Everything that is there, committed batch by batch."""
    found = b""
    while (batch := source.poll()) is not None:
        found += b"".join(piece.data for piece in batch.slices)
        source.commit(batch.positions)
    return found


def locked(path: Path) -> int:
    """What a live writer holds: a descriptor with an exclusive lock."""
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def test_only_complete_lines_are_handed_out_while_the_writer_lives(spool: Spool) -> None:
    """Half a line waits for its other half; nobody else has to wait for it."""
    path = spool.write("a-00000001.ndjson", b"one\ntwo\nthr")
    spool.write("b-00000001.ndjson", b"other\n")
    writer = locked(path)
    source = spool.source()
    assert {"a-00000001.ndjson": b"one\ntwo\n", "b-00000001.ndjson": b"other\n"} == texts(source.poll())
    assert source.poll() is None
    spool.write("a-00000001.ndjson", b"ee\n")
    batch = source.poll()
    assert batch is not None
    assert {"a-00000001.ndjson": b"three\n"} == texts(batch)
    assert 8 == batch.slices[0].byte_offset
    os.close(writer)


def test_a_torn_line_of_a_dead_writer_is_a_dead_letter(spool: Spool) -> None:
    """Nobody holds the lock any more: the rest of the line will never come."""
    path = spool.write("a-00000001.ndjson", b"one\ntor")
    source = spool.source()
    batch = source.poll()
    assert batch is not None
    [letter] = batch.dead_letters
    assert (Reason.TORN_LINE, str(path), 4, b"tor") == (
        letter.reason,
        letter.source,
        letter.byte_offset,
        letter.original,
    )
    source.commit(batch.positions)
    assert source.poll() is None
    assert spool.source().poll() is None


def test_a_torn_line_before_a_later_segment_is_a_dead_letter(spool: Spool) -> None:
    """A writer that went on to its next segment does not come back, even while it lives."""
    spool.write("a-00000001.ndjson", b"one\ntor")
    writer = locked(spool.write("a-00000002.ndjson", b"two\nhal"))
    batch = spool.source().poll()
    assert batch is not None
    assert [b"tor"] == [letter.original for letter in batch.dead_letters]
    assert {"a-00000001.ndjson": b"one\n", "a-00000002.ndjson": b"two\n"} == texts(batch)
    os.close(writer)


def test_after_a_restart_it_goes_on_where_was_committed(spool: Spool) -> None:
    """What was handed out but not committed comes again; what was committed does not."""
    spool.write("a-00000001.ndjson", b"one\n")
    source = spool.source()
    batch = source.poll()
    assert batch is not None
    source.commit(batch.positions)
    spool.write("a-00000001.ndjson", b"two\n")
    assert {"a-00000001.ndjson": b"two\n"} == texts(source.poll())
    assert {"a-00000001.ndjson": b"two\n"} == texts(spool.source().poll())


def test_segments_of_a_process_come_in_order_and_all_of_them(spool: Spool) -> None:
    """A backlog of several segments is one stream."""
    for number in range(1, 12):
        spool.write(f"a-{number:08d}.ndjson", b"%d\n" % number)
    assert b"".join(b"%d\n" % number for number in range(1, 12)) == drain(spool.source())


def test_a_busy_process_does_not_starve_the_others(spool: Spool) -> None:
    """Each gets its share of every batch, and turns rotate when there are more than fit."""
    spool.limits = BatchLimits(size_bytes=3_000, lines=10_000, share_bytes=1_000)
    for boot in "abcdef":
        spool.write(
            f"{boot}-00000001.ndjson", b"x" * 99 + b"\n" if boot != "a" else (b"x" * 99 + b"\n") * 100
        )
    source = spool.source()
    first, second = texts(source.poll()), texts(source.poll())
    assert {"b", "c", "d", "e", "f"} <= {name[0] for name in first | second}
    assert len(first.get("a-00000001.ndjson", b"")) <= 1_000


def test_a_batch_has_bounds(spool: Spool) -> None:
    """However long the backlog, memory stays bounded; a line longer than a share comes whole."""
    spool.limits = BatchLimits(size_bytes=1_000, lines=5, share_bytes=100)
    spool.write("a-00000001.ndjson", b"x" * 5_000 + b"\n" + b"short\n" * 2_000)
    source = spool.source()
    batch = source.poll()
    assert batch is not None
    assert b"x" * 5_000 + b"\n" == batch.slices[0].data[:5_001]
    source.commit(batch.positions)
    sizes = []
    while (batch := source.poll()) is not None:
        sizes.append(batch.size_bytes)
    assert max(sizes) <= 1_000


def test_an_endless_line_does_not_fill_the_memory(spool: Spool) -> None:
    """A line beyond the limit is handed out in parts, which validation buries one by one."""
    spool.limits = BatchLimits(size_bytes=65_536, lines=10, share_bytes=65_536)
    spool.write("a-00000001.ndjson", b"x" * (5 * MAX_LINE_BYTES) + b"\ngood\n")
    source = spool.source()
    pieces = []
    while (batch := source.poll()) is not None:
        pieces += [piece.data for piece in batch.slices]
    assert b"x" * (5 * MAX_LINE_BYTES) + b"\ngood\n" == b"".join(pieces)
    assert max(map(len, pieces)) <= 2 * MAX_LINE_BYTES


def test_new_spools_and_segments_are_found_while_it_runs(spool: Spool, tmp_path: Path) -> None:
    """A lab that is started later is tailed from its first event."""
    source = spool.source()
    assert source.poll() is None
    later = tmp_path / "lab" / "spool"
    spool.others.append(later)
    assert source.poll() is None
    later.mkdir(parents=True)
    (later / "c-00000001.ndjson").write_bytes(b"hello\n")
    assert {"c-00000001.ndjson": b"hello\n"} == texts(source.poll())


def test_a_segment_dropped_by_its_writer_is_counted(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    """Past its bound the writer drops the oldest segment: that is told, and reading goes on."""
    spool.limits = BatchLimits(size_bytes=10, lines=1, share_bytes=10)
    path = spool.write("a-00000001.ndjson", b"one\ntwo\nthree\nfour\n")
    source = spool.source()
    source.poll()
    path.unlink()
    spool.write("a-00000002.ndjson", b"five\n")
    assert {"a-00000002.ndjson": b"five\n"} == texts(source.poll())
    assert 1 == source.lost_segments()
    assert "segment_lost" in caplog.text


def test_a_segment_that_is_stored_may_vanish(spool: Spool) -> None:
    """Deleted after it was read to its end: nothing was lost."""
    path = spool.write("a-00000001.ndjson", b"one\n")
    source = spool.source()
    drain(source)
    path.unlink()
    assert source.poll() is None
    assert 0 == source.lost_segments()
    assert frozenset() == Offsets(spool.offsets_file).known()


def test_a_batch_taken_back_by_its_writer_is_read_again(spool: Spool) -> None:
    """The disk was full in the middle of a write, and the writer undid it: what is read twice is stored once."""
    path = spool.write("a-00000001.ndjson", b"one\ntwo\nthree\n")
    source = spool.source()
    drain(source)
    with path.open("r+b") as file:
        file.truncate(4)
    assert {"a-00000001.ndjson": b"one\n"} == texts(source.poll())
    spool.write("a-00000001.ndjson", b"two\n")
    assert {"a-00000001.ndjson": b"two\n"} == texts(source.poll())


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling link"])
def test_what_is_no_readable_file_is_reported_once_and_passed(
    spool: Spool, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One dead letter that says which and why; everything else goes on, the same process's later segments too."""
    path = spool.path / "a-00000001.ndjson"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    spool.write("a-00000002.ndjson", b"two\n")
    spool.write("b-00000001.ndjson", b"one\n")
    source = spool.source()
    batch = source.poll()
    assert batch is not None
    assert [(Reason.UNREADABLE, str(path))] == [
        (letter.reason, letter.source) for letter in batch.dead_letters
    ]
    assert {"a-00000002.ndjson": b"two\n", "b-00000001.ndjson": b"one\n"} == texts(batch)
    assert source.poll() is None
    assert 1 == caplog.text.count("unreadable")


def test_a_file_that_becomes_readable_is_read(spool: Spool) -> None:
    """The reason is gone, so the segment is read from its start."""
    path = spool.path / "a-00000001.ndjson"
    path.mkdir()
    source = spool.source()
    batch = source.poll()
    assert batch is not None
    assert {} == batch.positions
    path.rmdir()
    spool.write("a-00000001.ndjson", b"one\n")
    assert {"a-00000001.ndjson": b"one\n"} == texts(source.poll())


def test_a_file_that_is_not_named_like_a_segment_is_reported(spool: Spool) -> None:
    """Somebody put events there that nobody would read: that is told, not passed over."""
    stranger = spool.write("export.ndjson", b"one\n")
    spool.write("notes.txt", b"not ours\n")
    batch = spool.source().poll()
    assert batch is not None
    assert [str(stranger)] == [letter.source for letter in batch.dead_letters]


def test_a_stored_segment_is_deleted_where_that_is_wanted(spool: Spool) -> None:
    """Only when it is stored, its writer is gone or went on, and its last write is a while ago."""
    spool.delete_consumed = True
    first = spool.write("a-00000001.ndjson", b"one\n")
    second = spool.write("a-00000002.ndjson", b"two\n")
    dead = spool.write("b-00000001.ndjson", b"three\n")
    writer = locked(second)
    spool.now_seconds = second.stat().st_mtime + SETTLE_SECONDS / 2
    source = spool.source()
    drain(source)
    assert [True, True, True] == [path.exists() for path in (first, second, dead)]
    spool.now_seconds += SETTLE_SECONDS
    assert source.poll() is None
    assert [False, True, False] == [path.exists() for path in (first, second, dead)]
    os.close(writer)
    assert source.poll() is None
    assert not second.exists()
    assert source.poll() is None
    assert 0 == source.lost_segments()


def test_nothing_is_deleted_that_was_not_stored(spool: Spool) -> None:
    """Handed out is not stored: before the commit every segment stays, an empty one as well."""
    spool.delete_consumed = True
    paths = [spool.write("a-00000001.ndjson", b"one\n"), spool.write("b-00000001.ndjson", b"")]
    source = spool.source()
    source.poll()
    assert source.poll() is None
    assert all(path.exists() for path in paths)


def test_segments_stay_where_they_are_recorded_from(spool: Spool) -> None:
    """A lab's spool is what a recording is made of."""
    path = spool.write("a-00000001.ndjson", b"one\n")
    source = spool.source()
    drain(source)
    assert source.poll() is None
    assert path.exists()


def test_the_lag_is_what_is_there_and_not_committed(spool: Spool) -> None:
    """In bytes, segments that nobody came to yet included."""
    spool.limits = BatchLimits(size_bytes=4, lines=1, share_bytes=4)
    spool.write("a-00000001.ndjson", b"one\ntwo\n")
    spool.write("a-00000002.ndjson", b"three\n")
    source = spool.source()
    batch = source.poll()
    assert batch is not None
    assert 14 == source.lag_bytes()
    source.commit(batch.positions)
    assert 10 == source.lag_bytes()
    drain(source)
    assert 0 == source.lag_bytes()
