"""vLLM's stamps have neither year nor zone."""

import os
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.pipeline.sources.logs.lines import line
from tests.pipeline.sources.logs.reading import read_files, read_lines

from falseok_pipeline.sources.logs.times import Clock, year_of

LEASE = "Releasing expired KV blocks for request a-{} which were retrieved by 0 remote worker(s) before"


def micros(*parts: int, zone: object = UTC) -> int:
    """A moment in microseconds since the epoch."""
    return round(datetime(*parts, tzinfo=zone).timestamp() * 1e6)  # type: ignore[arg-type, misc]


def test_the_zone_shifts_the_time(tmp_path: Path) -> None:
    """`--time-zone` is where the servers' clocks are."""
    berlin = ZoneInfo("Europe/Berlin")
    _, store = read_lines(tmp_path, prefill=[line(LEASE.format(1))], zone=berlin)
    assert micros(2026, 11, 30, 20, 35, 13) == store.events[0]["ts"]


def test_the_year_turns_within_a_log(tmp_path: Path) -> None:
    """After December comes January of the next year."""
    lines = [
        line(LEASE.format(1)).replace("11-30 21:35:13", "12-31 23:59:59"),
        line(LEASE.format(2)).replace("11-30 21:35:13", "01-01 00:00:01"),
    ]
    _, store = read_lines(tmp_path, prefill=lines, year=2026)
    assert [micros(2026, 12, 31, 23, 59, 59), micros(2027, 1, 1, 0, 0, 1)] == [
        event["ts"] for event in store.events
    ]


@pytest.mark.parametrize(
    ("head", "modified", "year", "source"),
    [
        (b"(Worker pid=1) 2024-11-30 21:34:54 NIXL INFO x", (2026, 12, 1), 2024, "a full date in the log"),
        (b"INFO 11-30 21:34:26 [x.py:1] y", (2026, 12, 1), 2026, "the file's modification time"),
        (b"INFO 12-30 21:34:26 [x.py:1] y", (2027, 1, 2), 2026, "the file's modification time"),
        (b"INFO 02-29 21:34:26 [x.py:1] y", (2026, 12, 1), 2024, "the file's modification time"),
        (b"nothing", (2025, 6, 1), 2025, "the file's modification time"),
    ],
)
def test_the_year_is_found(head: bytes, modified: tuple[int, int, int], year: int, source: str) -> None:
    """In the log itself, else the latest year that is not in the future of the file."""
    assert (year, source) == year_of(head, datetime(*modified, tzinfo=UTC).timestamp(), UTC)


def test_pieces_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    """Whatever they are called: what the older piece says of the engine is known in the newer one."""
    old, new = tmp_path / "decode.log", tmp_path / "decode.log.1"
    old.write_text(f"{line('Initializing NIXL worker the-engine', clock='20:00:00')}\n")
    new.write_text(f"{line(LEASE.format(1), clock='21:00:00')}\n")
    _, store = read_files(prefill=[new, old])
    assert "the-engine" == store.named("kv.lease_end")[0]["engine_id"]


def test_the_modification_time_gives_the_year(tmp_path: Path) -> None:
    """Where neither option nor log does."""
    path = tmp_path / "prefill.log"
    path.write_text(f"{line(LEASE.format(1))}\n")
    os.utime(path, (micros(2025, 12, 5) / 1e6,) * 2)
    read, store = read_files(prefill=[path], year=None)
    assert micros(2025, 11, 30, 21, 35, 13) == store.events[0]["ts"]
    assert (2025, "the file's modification time") == (read.files[0].year, read.files[0].year_from)


def test_a_stamp_that_is_no_time_changes_nothing() -> None:
    """A line with nonsense for a time is as old as the line before it."""
    clock = Clock(UTC, 2026)
    assert (
        micros(2026, 11, 30, 1, 2, 3)
        == clock.read("11-30 01:02:03", None)
        == clock.read("99-99 99:99:99", None)
    )
