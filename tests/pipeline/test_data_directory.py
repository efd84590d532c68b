"""Names inside a data directory, and who may use it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from falseok_pipeline.data_directory import SOCKET_PATH_BYTES, DataDirectory
from falseok_pipeline.errors import DataDirectoryInUseError, PipelineError

HOLD = """
import sys
from pathlib import Path
from falseok_pipeline.data_directory import DataDirectory
with DataDirectory(Path(sys.argv[1])).claim("run", 5, version="9"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder_process(data: DataDirectory) -> "subprocess.Popen[str]":
    """Another process that holds the directory until its input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "held\n" == process.stdout.readline()
    return process


def end(process: "subprocess.Popen[str]") -> None:
    """Let the other process end by itself."""
    process.communicate()


def test_the_option_wins_over_the_environment_and_that_over_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--data`, else FALSEOK_DATA, else the user's data folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    environment = {"FALSEOK_DATA": str(tmp_path / "environment")}
    assert tmp_path / "option" == DataDirectory.resolve(tmp_path / "option", environment).path
    assert tmp_path / "environment" == DataDirectory.resolve(None, environment).path
    assert tmp_path / "home" / "falseok" == DataDirectory.resolve(None, {}).path


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes with other working directories mean the same place by the same object."""
    monkeypatch.chdir(tmp_path)
    assert tmp_path / "here" == DataDirectory.resolve("here", {}).path


def test_spools_are_its_own_and_those_of_the_labs_that_exist(data: DataDirectory) -> None:
    """A lab started later is found; a lab without a spool is not."""
    assert () == data.spools()
    (data.lab / "two" / "spool").mkdir(parents=True)
    (data.lab / "none").mkdir()
    data.spool.mkdir()
    assert (data.spool, data.lab / "two" / "spool") == data.spools()


def test_a_long_path_gets_a_socket_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unix socket names end at about a hundred bytes; a deep data directory must work all the same."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    short = DataDirectory(Path("/tmp/falseok-short"))
    deep = DataDirectory(tmp_path / ("d" * 120))
    deeper = DataDirectory(tmp_path / ("d" * 121))
    assert Path("/tmp/falseok-short/query.sock") == short.query_socket
    assert len(os.fsencode(deep.query_socket)) <= SOCKET_PATH_BYTES
    assert deep.query_socket != deeper.query_socket


def test_a_second_claim_names_the_process_that_holds_it(data: DataDirectory) -> None:
    """The message says which process to stop."""
    process = holder_process(data)
    try:
        with pytest.raises(DataDirectoryInUseError) as refused, data.claim("run", 6):
            pytest.fail("the directory was held twice")
        assert process.pid == refused.value.pid
        assert f"process {process.pid} (falseok run)" in str(refused.value)
        running = data.running()
        assert running is not None
        assert (process.pid, "run", 5, "9") == (
            running.pid,
            running.command,
            running.started_at_micros,
            running.version,
        )
    finally:
        end(process)


def test_what_a_killed_process_left_behind_is_not_believed(data: DataDirectory) -> None:
    """After kill -9 `run.json` is still there, nobody runs, and the directory can be claimed."""
    process = holder_process(data)
    process.kill()
    end(process)
    assert data.run_file.exists()
    assert data.running() is None
    with data.claim("run", 7) as info:
        assert os.getpid() == info.pid


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """The message names the directory, the reason and the way out."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(PipelineError, match=r"file/data cannot be used: .*--data or FALSEOK_DATA"),
        DataDirectory(tmp_path / "file" / "data").claim("run", 1),
    ):
        pytest.fail("it was claimed")


def test_nothing_is_left_of_a_claim_that_ended(data: DataDirectory) -> None:
    """`run.json` goes with the process that wrote it."""
    with data.claim("run", 7, serves_queries=True) as info:
        assert str(data.query_socket) == info.query_socket
        assert info == data.running()
    assert data.running() is None
    assert not data.run_file.exists()


def test_a_run_waits_for_a_query_that_holds_the_directory(tmp_path: Path) -> None:
    """A query has the store open for a moment only; a service that starts just then waits instead of giving up."""
    data = DataDirectory(tmp_path)
    asking = data.claim("query", 1)
    asking.__enter__()
    timer = threading.Timer(0.5, lambda: asking.__exit__(None, None, None))
    timer.start()
    with data.claim("run", 2) as info:
        assert "run" == info.command
    timer.join()
