"""The spool of a sink whose receiver is away: in order, owned by one process at a time, bounded, left empty."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collector import processes

from falseok_collector.sinks.backlog import CHUNK_BYTES, Backlog


def backlog(
    directory: Path, boot: str = "boot", max_bytes: int = 1 << 30, segment_bytes: int = 4096
) -> Backlog:
    """A backlog with small segments."""
    return Backlog(directory, boot, max_bytes=max_bytes, segment_bytes=segment_bytes)


def numbered(first: int, last: int, size: int = 100) -> list[bytes]:
    """Lines that begin with their number."""
    return [b"%05d" % number + b"x" * size for number in range(first, last + 1)]


def drained(of: Backlog) -> list[bytes]:
    """Everything that waits, delivered."""
    found: list[bytes] = []
    while lines := of.next_lines():
        of.sent(lines)
        found += lines
    return found


def left_by_a_dead_process(directory: Path, boot: str, lines: int, tail: bytes = b"") -> None:
    """Segments of a process that was killed while the receiver was away."""
    processes.run(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from falseok_collector.sinks.backlog import Backlog\n"
        "backlog = Backlog(Path(sys.argv[1]), sys.argv[2], max_bytes=1 << 30, segment_bytes=4096)\n"
        "for number in range(int(sys.argv[3])):\n"
        "    backlog.write([b'%05d' % number + b'x' * 100])\n"
        "os.write(backlog._spool._file, os.fsencode(sys.argv[4]))\n"
        "os._exit(0)\n",
        str(directory),
        boot,
        str(lines),
        tail.decode(),
    )


def test_what_was_written_comes_back_in_order_and_leaves_nothing(tmp_path: Path) -> None:
    """Over many segments; each is deleted when it was sent."""
    log = backlog(tmp_path)
    for first in range(0, 500, 10):
        log.write(numbered(first, first + 9))
    assert (500, True) == (log.waiting, len(list(tmp_path.glob("*.ndjson"))) > 10)
    assert numbered(0, 499) == drained(log)
    assert 0 == log.waiting
    log.close()
    assert [] == list(tmp_path.iterdir())


def test_lines_not_delivered_are_answered_again(tmp_path: Path) -> None:
    """Half a piece was confirmed: the rest comes next, then what was written meanwhile."""
    log = backlog(tmp_path)
    log.write(numbered(0, 9))
    assert numbered(0, 9) == log.next_lines() == log.next_lines()
    log.sent(numbered(0, 3))
    assert (numbered(4, 9), 6) == (log.next_lines(), log.waiting)
    log.write(numbered(10, 12))
    assert numbered(4, 12) == drained(log)


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    """A sink whose receiver is there leaves no trace."""
    log = backlog(tmp_path / "kafka")
    assert (False, [], 0) == (log.adopt(), log.next_lines(), log.waiting)
    log.close()
    assert not (tmp_path / "kafka").exists()


def test_a_line_longer_than_a_piece_comes_whole(tmp_path: Path) -> None:
    """An event may be as long as a megabyte."""
    log = backlog(tmp_path)
    long = [b"y" * (CHUNK_BYTES - 1), b"z" * 10, b"y" * CHUNK_BYTES]
    for line in long:
        log.write([line])
    assert long == drained(log)


def test_a_dead_process_is_inherited_in_order_with_its_torn_line_counted(tmp_path: Path) -> None:
    """The half line it was writing when it died is nobody's to read."""
    left_by_a_dead_process(tmp_path, "dead", 200, tail=b'{"torn')
    log = backlog(tmp_path)
    assert (True, 0) == (log.adopt(), log.waiting)
    assert numbered(0, 199) == drained(log)
    assert (1, 0) == (log.take_torn(), log.take_torn())
    assert [] == list(tmp_path.iterdir())


def test_several_dead_processes_are_inherited_one_after_the_other(tmp_path: Path) -> None:
    """Each in order; their lock files go, too."""
    for boot in ("a1", "b2", "c3"):
        left_by_a_dead_process(tmp_path, boot, 100)
    log = backlog(tmp_path)
    found: list[bytes] = []
    while log.adopt():
        found += drained(log)
    assert numbered(0, 99) * 3 == found
    assert [] == list(tmp_path.iterdir())


def test_a_live_process_is_never_inherited(tmp_path: Path) -> None:
    """Not even its finished segments: its order would break."""
    alive, other = backlog(tmp_path, "alive"), backlog(tmp_path, "other")
    for first in range(0, 200, 10):
        alive.write(numbered(first, first + 9))
    assert (False, []) == (other.adopt(), other.next_lines())
    assert numbered(0, 199) == drained(alive)
    alive.close()
    other.close()
    assert [] == list(tmp_path.iterdir())


def test_what_a_process_left_when_it_ended_is_inherited(tmp_path: Path) -> None:
    """An orderly end with the receiver away leaves everything for the next."""
    first = backlog(tmp_path, "first")
    first.write(numbered(0, 99))
    first.close()
    second = backlog(tmp_path, "second")
    assert second.adopt()
    assert numbered(0, 99) == drained(second)
    assert [] == list(tmp_path.iterdir())


def test_only_one_heir_at_a_time(tmp_path: Path) -> None:
    """Two processes that look at the same moment do not send it twice."""
    left_by_a_dead_process(tmp_path, "dead", 100)
    one, two = backlog(tmp_path, "one"), backlog(tmp_path, "two")
    assert (True, False) == (one.adopt(), two.adopt())
    assert [] == two.next_lines()
    one.close()
    assert two.adopt()
    assert numbered(0, 99) == drained(two)


def test_ones_own_events_go_first(tmp_path: Path) -> None:
    """Inheriting does not delay what happens now."""
    left_by_a_dead_process(tmp_path, "dead", 5)
    log = backlog(tmp_path)
    assert log.adopt()
    log.write(numbered(100, 104))
    assert numbered(100, 104) + numbered(0, 4) == drained(log)


def test_the_directory_keeps_to_its_bound(tmp_path: Path) -> None:
    """The oldest go and are counted; what is left comes in order, and nothing waits that is not there."""
    log = backlog(tmp_path, max_bytes=32_768)
    for number in range(1_000):
        log.write(numbered(number, number))
    events, segments = log.spilled
    assert events > 0
    assert segments > 0
    assert numbered(events, 999) == drained(log)
    assert 0 == log.waiting


def test_a_segment_that_is_being_sent_is_not_dropped(tmp_path: Path) -> None:
    """The bound takes the next oldest instead: what is half sent would otherwise be lost and sent."""
    log = backlog(tmp_path, max_bytes=16_384)
    log.write(numbered(0, 40))
    first = log.next_lines()
    log.sent(first[:1])
    for number in range(100, 300):
        log.write(numbered(number, number))
    assert numbered(1, 40) == log.next_lines()


def test_an_abandoned_backlog_stays_its_owners(tmp_path: Path) -> None:
    """What a forked child does: the locks remain with the parent, and only as long as it lives."""
    log = backlog(tmp_path)
    log.write(numbered(0, 9))
    parents = os.dup(log._lock)
    log.abandon()
    heir = backlog(tmp_path, "heir")
    assert not heir.adopt()
    os.close(parents)
    assert heir.adopt()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 60)),
        st.tuples(st.just("send"), st.integers(0, 80)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_whatever_happens_every_line_comes_in_the_order_of_its_process(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """Written, sent in part, ended, inherited, in any order: nothing is missing, and only an heir repeats anything."""
    directory = tmp_path_factory.mktemp("backlog")
    written: list[bytes] = []
    arrived: list[bytes] = []
    boot = 0
    log = backlog(directory, "b0")
    for step, amount in [*steps, ("send", 10**9)]:
        if step == "write":
            lines = [b"%d:%d" % (boot, len(written) + number) + b"x" * 90 for number in range(amount)]
            log.write(lines)
            written += lines
        elif step == "restart":
            log.close()
            boot += 1
            log = backlog(directory, f"b{boot}")
        else:
            log.adopt()
            while amount > 0 and (lines := log.next_lines() or (log.adopt() and log.next_lines()) or []):
                log.sent(lines[:amount])
                arrived += lines[:amount]
                amount -= len(lines[:amount])  # noqa: PLW2901 - what is left of it
    log.close()
    assert [] == list(directory.iterdir())
    once = list(dict.fromkeys(arrived))
    for process in range(boot + 1):
        mark = b"%d:" % process
        assert [line for line in written if line.startswith(mark)] == [
            line for line in once if line.startswith(mark)
        ]
    if not boot:
        assert once == arrived
