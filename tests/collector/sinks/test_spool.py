"""The spool directory: what a writer leaves there, and what it takes away when the bound is passed."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.collector import processes
from tests.collector.locks import is_locked

from falseok_collector.sinks.spool import SpoolSink

LINE = b"x" * 1_023
"""With its line break, 1 KiB."""


def spool(
    directory: Path, boot: str = "boot", max_bytes: int = 1 << 20, segment_bytes: int = 4096
) -> SpoolSink:
    """A sink with small segments."""
    return SpoolSink(directory, boot, max_bytes=max_bytes, segment_bytes=segment_bytes)


def names(directory: Path) -> list[str]:
    """Segments, oldest first."""
    return sorted(path.name for path in directory.iterdir())


def lines_in(directory: Path) -> list[bytes]:
    """Every complete line of the directory, in the order of the segments."""
    return [line for name in names(directory) for line in (directory / name).read_bytes().splitlines()]


def test_nothing_is_created_before_the_first_event(tmp_path: Path) -> None:
    """A process that never speaks leaves no trace."""
    sink = spool(tmp_path / "spool")
    sink.write([])
    sink.close()
    assert not (tmp_path / "spool").exists()


def test_lines_are_appended_to_a_numbered_segment_of_this_boot(tmp_path: Path) -> None:
    """`<boot>-<8 digits>.ndjson`, one line an event, each ended by a line break."""
    sink = spool(tmp_path / "a" / "b")
    sink.write([b"{}", b"[]"])
    sink.write([b"1"])
    assert b"{}\n[]\n1\n" == (tmp_path / "a" / "b" / "boot-00000001.ndjson").read_bytes()


def test_a_full_segment_is_followed_by_the_next(tmp_path: Path) -> None:
    """A batch is never split over two segments."""
    sink = spool(tmp_path)
    for number in range(9):
        sink.write([b"%d" % number + LINE[1:]])
    assert ["boot-00000001.ndjson", "boot-00000002.ndjson", "boot-00000003.ndjson"] == names(tmp_path)
    assert [b"%d" % number for number in range(9)] == [line[:1] for line in lines_in(tmp_path)]


def test_the_open_segment_is_locked_and_finished_ones_are_not(tmp_path: Path) -> None:
    """That is how a reader tells a torn line from one that is being written."""
    sink = spool(tmp_path)
    for _ in range(5):
        sink.write([LINE])
    first, second = (tmp_path / name for name in names(tmp_path))
    assert (False, True) == (is_locked(first), is_locked(second))
    sink.close()
    assert not is_locked(second)


def test_the_lock_goes_when_the_writer_is_killed(tmp_path: Path) -> None:
    """The kernel lets go of it, whatever the writer was doing."""
    writer = processes.start(
        "import sys; from pathlib import Path; from falseok_collector.sinks.spool import SpoolSink\n"
        "sink = SpoolSink(Path(sys.argv[1]), 'boot', max_bytes=1 << 20, segment_bytes=4096)\n"
        "sink.write([b'{}']); print('written', flush=True); sys.stdin.read()\n",
        str(tmp_path),
    )
    with writer:
        assert writer.stdout is not None
        assert "written\n" == writer.stdout.readline()
        (segment,) = tmp_path.iterdir()
        assert is_locked(segment)
        writer.kill()
        writer.wait()
    assert not is_locked(segment)


def test_the_directory_keeps_to_its_bound_and_what_goes_is_counted(tmp_path: Path) -> None:
    """The oldest finished segments go; what is left and what was lost add up to what was written."""
    sink = spool(tmp_path, max_bytes=16_384)
    for number in range(100):
        sink.write([b"%04d" % number + LINE[4:]])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 16_384
    left = [int(line[:4]) for line in lines_in(tmp_path)]
    events_lost, segments_lost = sink.counts.spilled, sink.counts.segments_dropped
    assert list(range(events_lost, 100)) == left
    assert (25 - len(names(tmp_path)), 4 * segments_lost) == (segments_lost, events_lost)


def test_segments_are_never_larger_than_a_quarter_of_the_bound(tmp_path: Path) -> None:
    """Dropping one segment must not drop everything."""
    sink = spool(tmp_path, max_bytes=16_384, segment_bytes=1 << 30)
    for _ in range(5):
        sink.write([LINE])
    assert 2 == len(names(tmp_path))


def test_the_open_segment_of_another_writer_is_never_dropped(tmp_path: Path) -> None:
    """Not even when it is the oldest and the bound is passed; once its writer is gone, it is."""
    other = spool(tmp_path, boot="other", max_bytes=16_384)
    other.write([b"mine"])
    os.utime(tmp_path / "other-00000001.ndjson", (0, 0))
    sink = spool(tmp_path, max_bytes=16_384)
    for _ in range(40):
        sink.write([LINE])
    assert (tmp_path / "other-00000001.ndjson").exists()
    other.close()
    for _ in range(8):
        sink.write([LINE])
    assert not (tmp_path / "other-00000001.ndjson").exists()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Only segments count, and only segments go."""
    stranger = tmp_path / "notes.txt"
    stranger.write_bytes(b"n" * 100_000)
    sink = spool(tmp_path, max_bytes=16_384)
    for _ in range(40):
        sink.write([LINE])
    assert stranger.exists()


def test_a_directory_that_cannot_be_made_is_an_error_until_it_can(tmp_path: Path) -> None:
    """Nothing of the refused lines is kept; offered again, they are written."""
    obstacle = tmp_path / "spool"
    obstacle.write_bytes(b"")
    sink = spool(obstacle)
    with pytest.raises(FileExistsError):
        sink.write([b"a"])
    obstacle.unlink()
    sink.write([b"a"])
    assert [b"a"] == lines_in(obstacle)


def test_a_directory_removed_while_writing_comes_back_with_the_next_segment(tmp_path: Path) -> None:
    """Somebody cleans up: from the next segment on events are there again."""
    directory = tmp_path / "spool"
    sink = spool(directory)
    sink.write([LINE] * 4)
    (directory / "boot-00000001.ndjson").unlink()
    directory.rmdir()
    sink.write([b"a"])
    assert [b"a"] == lines_in(directory)


TRUNCATED_WRITE = """
import resource, signal, sys
from pathlib import Path
from falseok_collector.sinks.spool import SpoolSink

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
sink = SpoolSink(Path(sys.argv[1]), "boot", max_bytes=1 << 30, segment_bytes=1 << 20)
segment = Path(sys.argv[1]) / "boot-00000001.ndjson"
sink.write([b"first" * 100] * 4)
size = segment.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 700, hard))
for attempt in range(3):
    try:
        sink.write([b"second" * 100] * 4)
    except OSError as error:
        print(error.errno, segment.stat().st_size - size)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
sink.write([b"third"])
sink.close()
"""


def test_a_write_cut_short_by_a_full_disk_is_undone(tmp_path: Path) -> None:
    """The kernel takes part of the batch, then refuses: no torn line stays, and writing goes on when space returns."""
    printed = processes.run(TRUNCATED_WRITE, str(tmp_path))
    assert [f"{errno.EFBIG} 0"] * 3 == printed.splitlines()
    assert [b"first" * 100] * 4 + [b"third"] == lines_in(tmp_path)


def test_a_segment_that_can_be_neither_written_nor_cut_is_given_up(tmp_path: Path) -> None:
    """A device that is full and cannot be truncated: the error leaves, and the next write begins a new segment."""
    sink = spool(tmp_path)
    sink.write([b"a"])
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, sink._file)
    os.close(full)
    with pytest.raises(OSError, match=r"."):
        sink.write([b"b"])
    sink.write([b"b"])
    assert ["boot-00000001.ndjson", "boot-00000002.ndjson"] == names(tmp_path)
    assert [b"a", b"b"] == lines_in(tmp_path)


def test_a_segment_taken_for_finished_while_it_was_made_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may drop it between its creation and its lock: then the lines must not vanish with it."""
    sink = spool(tmp_path)
    flock = fcntl.flock
    calls: list[int] = []

    def racing_flock(descriptor: int, operation: int) -> None:
        if not calls:
            (tmp_path / "boot-00000001.ndjson").unlink()
        calls.append(operation)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", racing_flock)
    with pytest.raises(FileNotFoundError):
        sink.write([b"a"])
    sink.write([b"a"])
    assert [b"a"] == lines_in(tmp_path)


def test_abandoning_closes_without_letting_go_of_the_owners_lock(tmp_path: Path) -> None:
    """What a forked child does: the parent's segment stays locked as long as the parent lives, and no longer."""
    sink = spool(tmp_path)
    sink.write([b"a"])
    (segment,) = tmp_path.iterdir()
    owner = os.dup(sink._file)
    sink.abandon()
    assert is_locked(segment)
    os.close(owner)
    assert not is_locked(segment)


def full_spool(directory: Path) -> SpoolSink:
    """A sink whose directory has reached its bound: 16 KiB in segments of 4 KiB."""
    sink = spool(directory, max_bytes=16_384)
    for _ in range(16):
        sink.write([LINE])
    return sink


@pytest.mark.parametrize("kind", ["directory", "pipe", "dangling link", "unreadable"])
def test_what_cannot_be_dropped_is_passed_over(tmp_path: Path, kind: str) -> None:
    """Whatever lies there under a segment's name as the oldest: the next oldest goes, nothing stops and nothing hangs."""
    stranger = tmp_path / "aaaa-00000001.ndjson"
    if kind == "directory":
        stranger.mkdir()
    elif kind == "pipe":
        os.mkfifo(stranger)
    elif kind == "dangling link":
        stranger.symlink_to(tmp_path / "nowhere")
    else:
        stranger.write_bytes(LINE)
    os.utime(stranger, (0, 0), follow_symlinks=False)
    with pytest.MonkeyPatch.context() as patch:
        if kind == "unreadable":  # the superuser may read everything, so the refusal is played
            patch.setattr(os, "open", refusing(stranger, os.open))
        sink = full_spool(tmp_path)
        for _ in range(8):
            sink.write([LINE])
    assert os.path.lexists(stranger)
    assert sink.counts.segments_dropped >= 2
    sink.close()


def refusing(path: Path, opened: Callable[..., int]) -> Callable[..., int]:
    """`os.open` for somebody who may not read that one file."""

    def open_or_refuse(name: Path, *arguments: int) -> int:
        if name == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return opened(name, *arguments)

    return open_or_refuse


def test_a_segment_removed_while_it_is_written_is_noticed(
    tmp_path: Path, swallowed_errors: list[str]
) -> None:
    """Somebody cleans up an open segment: the next batch goes to a new one, and what was in it is counted."""
    sink = spool(tmp_path)
    sink.write([b"a", b"b"])
    (tmp_path / "boot-00000001.ndjson").unlink()
    sink.write([b"c"])
    assert ["boot-00000002.ndjson"] == names(tmp_path)
    assert [b"c"] == lines_in(tmp_path)
    assert (2, "FileNotFoundError") == (sink.counts.lost, sink.counts.last_error)
    assert [
        "falseok: a spool segment was removed while it was written; its 2 events may be lost"
    ] == swallowed_errors
