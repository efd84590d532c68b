"""`falseok run`: one process that stores, judges and answers."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed
from tests.cli.command_line import FALSEOK, MISMATCH_027, answer, falseok, spooled, words

from falseok_pipeline.data_directory import DataDirectory

LIVE_SECONDS = 120
"""Bound on waiting for a process of our own; the machine may be busy."""


@retry(
    retry=retry_if_result(lambda found: not found), stop=stop_after_delay(LIVE_SECONDS), wait=wait_fixed(0.1)
)
def until_up(data: Path) -> bool:
    """Wait until a run holds the data directory and answers queries."""
    running = DataDirectory(data).running()
    return running is not None and Path(running.query_socket).exists()


@retry(
    retry=retry_if_result(lambda found: not found), stop=stop_after_delay(LIVE_SECONDS), wait=wait_fixed(0.5)
)
def until_judged(data: Path) -> bool:
    """Wait until the events are stored and the incident has all its requests."""
    incidents = answer("triage", "incidents", "--data", data)
    return [32] == [incident["affected"] for incident in incidents]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    """A run over the recording of the incompatible pair, in its own process."""
    spooled(tmp_path / "spool", MISMATCH_027)
    process = subprocess.Popen(
        [*FALSEOK, "run", "--data", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until_up(tmp_path)
        yield tmp_path, process
    finally:
        process.kill()
        process.communicate(timeout=LIVE_SECONDS)


def test_once_stores_judges_and_stops(tmp_path: Path) -> None:
    """One JSON document with what was stored and what was found; a second time there is nothing new."""
    spooled(tmp_path / "spool", MISMATCH_027)
    first = answer("run", "--once", "--data", tmp_path)
    assert first["statistics"]["events_stored"] > 32
    assert [32] == [incident["affected"] for incident in first["incidents"]]
    second = answer("run", "--once", "--data", tmp_path)
    assert 0 == second["statistics"]["events_stored"]
    assert first["incidents"] == second["incidents"]


def test_named_spools_are_read_and_left_as_they_are(tmp_path: Path) -> None:
    """A spool named on the command line is somebody else's: nothing in it is deleted unless asked for."""
    spool = spooled(tmp_path / "elsewhere", MISMATCH_027)
    before = {path.name: path.read_bytes() for path in spool.iterdir()}
    result = answer("run", "--once", "--data", tmp_path / "data", "--spool", spool)
    assert [32] == [incident["affected"] for incident in result["incidents"]]
    assert before == {path.name: path.read_bytes() for path in spool.iterdir()}


def test_new_incident_is_announced_with_the_command_that_opens_it(tmp_path: Path) -> None:
    """Whoever watches the log sees the incident once, and where to look."""
    spooled(tmp_path / "spool", MISMATCH_027)
    result = falseok("run", "--once", "--data", tmp_path)
    assert 1 == result.stderr.count("new incident: INC-")
    assert f"--data {tmp_path})" in result.stderr
    assert "" == result.stdout


def test_other_commands_ask_the_live_run(live: tuple[Path, "subprocess.Popen[str]"]) -> None:
    """While the run holds the store, triage and status answer through it; a second run and a demo are refused."""
    data, _ = live
    until_judged(data)
    assert "answers queries" in words(falseok("status", "--data", data).stdout)
    for command in ("run", "demo"):
        refused = falseok(command, "--data", data)
        assert (2, "") == (refused.exit_code, refused.stdout)
        assert "is in use by process" in words(refused.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signal_ends_the_run_cleanly(
    live: tuple[Path, "subprocess.Popen[str]"], number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM: exit 0, no traceback, the directory free again, what was stored still there."""
    data, process = live
    until_judged(data)
    process.send_signal(number)
    _, errors = process.communicate(timeout=LIVE_SECONDS)
    assert (0, False) == (process.returncode, "Traceback" in errors)
    assert DataDirectory(data).running() is None
    assert not DataDirectory(data).query_socket.exists()
    assert 1 == len(answer("triage", "incidents", "--data", data))


def test_killed_run_leaves_nothing_that_stops_the_next_one(
    live: tuple[Path, "subprocess.Popen[str]"],
) -> None:
    """After kill -9 the next run goes on and counts nothing twice."""
    data, process = live
    process.kill()
    process.wait(timeout=LIVE_SECONDS)
    result = answer("run", "--once", "--data", data)
    assert [32] == [incident["affected"] for incident in result["incidents"]]


def test_live_run_prints_json_at_its_end(tmp_path: Path) -> None:
    """`--json` of a run that is stopped is one document on stdout."""
    process = subprocess.Popen(
        [*FALSEOK, "run", "--data", str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until_up(tmp_path)
    process.terminate()
    output, _ = process.communicate(timeout=LIVE_SECONDS)
    assert {"statistics", "incidents"} == set(msgspec.json.decode(output))


def test_missing_spool_is_named(tmp_path: Path) -> None:
    """A misspelt directory is an error at once, not a run that waits for ever."""
    result = falseok("run", "--once", "--data", tmp_path, "--spool", tmp_path / "nowhere")
    assert 2 == result.exit_code
    assert "nowhere" in result.stderr
