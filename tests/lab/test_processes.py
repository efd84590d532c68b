"""Only the lab's own processes are ended, and all of them: tried on real throw-away processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from falseok_lab.processes import OwnProcess, alive, end, members, start

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
PARENT = [sys.executable, "-c", "import subprocess, sys; subprocess.run(['sleep', '600'])"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[OwnProcess]]:
    """Processes of a test; whatever is left of them is killed."""
    processes: list[OwnProcess] = []
    yield processes
    end(processes, tmp_path)


def begin(command: list[str], directory: Path, started: list[OwnProcess]) -> OwnProcess:
    """Start a process as the lab does."""
    own = start("role", command, environment=os.environ, directory=directory, log=directory / "log")
    started.append(own)
    return own


def wait_for_child(own: OwnProcess) -> psutil.Process:
    """The first child of a process that is about to start one."""
    parent = psutil.Process(own.pid)
    while not (children := parent.children()):
        os.sched_yield()
    return children[0]


def test_a_started_process_leads_its_own_session_and_ends_with_its_children(
    tmp_path: Path, started: list[OwnProcess]
) -> None:
    """Ctrl-C at the terminal does not reach it, and ending it ends what it started."""
    own = begin(PARENT, tmp_path, started)
    child = wait_for_child(own)
    assert own.pid == os.getsid(own.pid)
    assert {own.pid, child.pid} == {one.pid for one in members(own, tmp_path)}
    assert 2 == end([own], tmp_path)
    assert not alive(own)
    assert not child.is_running()


def test_ending_twice_is_harmless(tmp_path: Path, started: list[OwnProcess]) -> None:
    """The second time there is nothing to end."""
    own = begin(SLEEPER, tmp_path, started)
    assert 1 == end([own], tmp_path)
    assert 0 == end([own], tmp_path)


def test_what_a_killed_leader_leaves_behind_is_found_and_ended(
    tmp_path: Path, started: list[OwnProcess]
) -> None:
    """An engine core whose API server was killed is still the lab's."""
    own = begin(PARENT, tmp_path, started)
    child = wait_for_child(own)
    os.kill(own.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(own.pid)])
    assert child.is_running()
    assert 1 == end([own], tmp_path)
    assert not child.is_running()


def test_a_process_that_has_the_pid_by_now_is_left_alone(tmp_path: Path) -> None:
    """Pid and creation time together are the identity: here a process that the lab never started."""
    with subprocess.Popen(SLEEPER, cwd=tmp_path, start_new_session=True) as other:
        try:
            own = OwnProcess(role="decode", pid=other.pid, created_seconds=1.0, command=[], log="")
            assert not alive(own)
            assert [] == members(own, tmp_path)
            assert 0 == end([own], tmp_path)
            assert other.poll() is None
        finally:
            other.kill()


def test_a_process_of_another_folder_is_not_taken_for_a_remnant(
    tmp_path: Path, started: list[OwnProcess]
) -> None:
    """A session whose leader has gone is only ours when it works in the lab's folder."""
    own = begin(PARENT, tmp_path, started)
    child = wait_for_child(own)
    os.kill(own.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(own.pid)])
    assert [] == members(own, tmp_path / "elsewhere")
    assert [child.pid] == [one.pid for one in members(own, tmp_path)]


def test_a_process_deaf_to_sigterm_is_killed(
    tmp_path: Path, started: list[OwnProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the waits nothing is asked any more."""
    monkeypatch.setattr("falseok_lab.processes.LEADERS_SECONDS", 0.2)
    monkeypatch.setattr("falseok_lab.processes.TERMINATE_SECONDS", 0.2)
    own = begin(STUBBORN, tmp_path, started)
    while "deaf" not in (tmp_path / "log").read_text():
        os.sched_yield()
    assert 1 == end([own], tmp_path)
    assert not alive(own)


def test_the_identity_survives_being_written_down(tmp_path: Path, started: list[OwnProcess]) -> None:
    """A later command finds the process again by what the state file says."""
    own = begin(SLEEPER, tmp_path, started)
    read_again = msgspec.json.decode(msgspec.json.encode(own), type=OwnProcess)
    assert alive(read_again)
    assert not alive(msgspec.structs.replace(read_again, created_seconds=own.created_seconds - 60))
