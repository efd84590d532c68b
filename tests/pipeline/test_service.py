"""The loop from spool to store: everything once, through restarts, stops and trouble."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.pipeline.stories import START_MICROS, Fleet, corrupt, healthy

from falseok_pipeline import replay
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.errors import DataDirectoryInUseError, PipelineError
from falseok_pipeline.service import Service
from falseok_pipeline.sources.spool import SpoolDirectory
from falseok_pipeline.statistics import Statistics

RUN = """
import signal, sys, threading
from pathlib import Path
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service
from falseok_pipeline.sources.spool import SpoolDirectory
stop = threading.Event()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stop.set())
with Service.open(DataDirectory(Path(sys.argv[1])), version="test") as service:
    service.run(stop, lambda statistics: print(statistics.events_stored, flush=True))
print("ended", flush=True)
"""


def run_once(data: DataDirectory) -> Statistics:
    """What `falseok run` does with what is there."""
    with Service.open(data, version="test", serve_queries=False) as service:
        return service.run_once()


def count(data: DataDirectory, what: str = "events FINAL") -> int:
    """Rows in the store, asked by a process of its own time."""
    with Service.open(data, version="test", serve_queries=False) as service:
        return int(service.store.query(f"SELECT count() AS n FROM {what}")[0]["n"])


def test_everything_in_the_spools_is_stored_and_counted(data: DataDirectory) -> None:
    """Its own spool and that of a lab; good lines, bad ones and blank ones."""
    fleet = Fleet()
    lines = [*fleet.configs(), *healthy(fleet, 1)]
    replay.write_spool(data.spool, [*lines, b"nonsense", b""])
    replay.write_spool(data.lab / "pair" / "spool", corrupt(fleet, 2))
    statistics = run_once(data)
    assert len(lines) + 10 == statistics.events_stored
    assert (1, 1, 0, 0) == (
        statistics.dead_letters,
        statistics.blank_lines,
        statistics.lag_bytes,
        statistics.lost_segments,
    )
    assert statistics.bytes_read > sum(map(len, lines))
    assert START_MICROS < statistics.last_event_micros
    assert len(lines) + 10 == count(data)
    assert 1 == count(data, "dead_letters")


def test_a_restart_neither_loses_nor_repeats(data: DataDirectory) -> None:
    """Each start goes on where the last one committed."""
    fleet = Fleet()
    replay.write_spool(data.spool, healthy(fleet, 1))
    assert 13 == run_once(data).events_stored
    assert 0 == run_once(data).events_stored
    replay.write_spool(data.spool, healthy(fleet, 2))
    assert 13 == run_once(data).events_stored
    assert 26 == count(data)


def test_lost_offsets_cost_time_not_truth(data: DataDirectory) -> None:
    """Without the offsets all is read again, and each event still is there once."""
    replay.write_spool(data.spool, [*healthy(Fleet(), 1), b"nonsense"])
    run_once(data)
    data.offsets_file.unlink()
    assert 13 == run_once(data).events_stored
    assert (13, 1) == (count(data), count(data, "dead_letters"))


def test_offsets_that_cannot_be_understood_stop_the_start(data: DataDirectory) -> None:
    """And leave the directory free for the next attempt."""
    data.path.mkdir()
    data.offsets_file.write_text("?")
    with pytest.raises(PipelineError, match=r"offsets.json cannot be understood"):
        run_once(data)
    data.offsets_file.unlink()
    assert 0 == run_once(data).events_stored


def test_a_second_service_is_refused(data: DataDirectory) -> None:
    """Two writers of one store would be a third kind of trouble; the message names the first."""
    with Service.open(data, version="test"), pytest.raises(DataDirectoryInUseError) as refused:
        Service.open(data, version="test")
    assert os.getpid() == refused.value.pid


def test_a_committed_offset_is_never_ahead_of_the_store(
    data: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between insert and commit: the batch comes again and stays single."""
    replay.write_spool(data.spool, healthy(Fleet(), 1))
    with Service.open(data, version="test", serve_queries=False) as service:
        monkeypatch.setattr(service._source, "commit", lambda positions: sys.exit(9))
        with pytest.raises(SystemExit):
            service.run_once()
    assert 13 == count(data)
    assert 13 == run_once(data).events_stored
    assert 13 == count(data)


def test_offsets_that_cannot_be_written_are_waited_for(
    data: DataDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full for the offsets as well: it says so and goes on when there is room."""
    replay.write_spool(data.spool, healthy(Fleet(), 1))
    reasons: list[str] = []
    with Service.open(data, version="test", serve_queries=False) as service:
        data.offsets_file.mkdir()  # nothing can be renamed over a folder

        def make_room(reason: str) -> None:
            reasons.append(reason)
            if reason and data.offsets_file.is_dir():
                data.offsets_file.rmdir()

        service._writer._waiting = make_room
        assert 13 == service.run_once().events_stored
    assert "How far everything is stored cannot be noted" in next(filter(None, reasons))
    assert reasons[-1] == ""
    assert "store_unavailable" in caplog.text
    assert 0 == run_once(data).events_stored


def test_what_comes_while_it_runs_is_stored(data: DataDirectory) -> None:
    """It tails until it is told to stop, and calls back after each batch."""
    stop = threading.Event()
    seen: list[int] = []

    def on_batch(statistics: Statistics) -> None:
        seen.append(statistics.events_stored)
        if not statistics.events_stored:
            replay.write_spool(data.spool, healthy(Fleet(), 1))
        else:
            stop.set()

    with Service.open(data, version="test", serve_queries=False) as service:
        statistics = service.run(stop, on_batch)
    assert [0, 13] == [seen[0], seen[-1]]
    assert 13 == statistics.events_stored


def test_the_rate_is_told_by_the_clock_it_is_given() -> None:
    """Mean since the start; nought in the first instant."""
    statistics = Statistics(started_at_micros=1_000_000, events_stored=300)
    assert 100.0 == statistics.events_per_second(4_000_000)
    assert 0.0 == statistics.events_per_second(1_000_000)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_cleanly(data: DataDirectory, number: signal.Signals) -> None:
    """The batch at hand is committed, the lock and the socket are gone."""
    replay.write_spool(data.spool, healthy(Fleet(), 1))
    process = subprocess.Popen([sys.executable, "-c", RUN, str(data.path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "13\n" == process.stdout.readline()
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert (0, "ended") == (process.returncode, output.split()[-1])
    assert data.running() is None
    assert not data.query_socket.exists()
    assert 0 == run_once(data).events_stored


def test_spools_can_be_named(data: DataDirectory, tmp_path: Path) -> None:
    """A test or a replay reads other directories than the usual ones."""
    replay.write_spool(tmp_path / "elsewhere", healthy(Fleet(), 1))
    with Service.open(
        data, serve_queries=False, spools=lambda: [SpoolDirectory(tmp_path / "elsewhere")]
    ) as service:
        assert 13 == service.run_once().events_stored
