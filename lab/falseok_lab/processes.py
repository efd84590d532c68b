"""Starts the lab's processes in sessions of their own and ends exactly those, never another process.

A process is known by pid and creation time, so that a pid the system has given to someone else since is left
alone. What a dead leader left behind is found by its session and by its working directory, the lab's folder.
Knows nothing of vLLM.
"""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from falseok_lab.errors import LabError

CREATION_TIME_TOLERANCE_SECONDS = 1.5
"""The kernel's boot time, from which creation times are reckoned, moves a little when the clock is set."""

LEADERS_SECONDS = 12.0
FOLLOWERS_SECONDS = 1.0
TERMINATE_SECONDS = 2.0
KILL_SECONDS = 5.0


class OwnProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A session leader that the lab started."""

    role: str
    pid: int
    created_seconds: float
    """Seconds since the epoch, as `psutil.Process.create_time` gives them."""
    command: list[str]
    log: str


_children: dict[int, subprocess.Popen[bytes]] = {}
"""What this very process started, kept so that it is reaped and never warned about."""


def start(
    role: str, command: Sequence[str], *, environment: Mapping[str, str], directory: Path, log: Path
) -> OwnProcess:
    """Start a command as leader of a new session; its output goes to the end of `log`, its input is empty.

    Raises `OSError` when it cannot be started.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    return OwnProcess(
        role=role,
        pid=child.pid,
        created_seconds=psutil.Process(child.pid).create_time(),
        command=list(command),
        log=str(log),
    )


def leader(own: OwnProcess) -> psutil.Process | None:
    """The running process, or None when it has ended or its pid belongs to another by now."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(own.pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        if not ended and _is(process, own):
            return process
    return None


def alive(own: OwnProcess) -> bool:
    """Whether the very process that was started still runs."""
    return leader(own) is not None


def members(own: OwnProcess, directory: Path) -> list[psutil.Process]:
    """Everything of this start that still runs: the leader, its descendants, and what its session left behind."""
    first = leader(own)
    found = {}
    if first is not None:
        found[first.pid] = first
        with suppress(psutil.NoSuchProcess):
            found.update((child.pid, child) for child in first.children(recursive=True))
    elif _pid_of_another(own):
        return []
    found.update((one.pid, one) for one in _left_behind(own, directory))
    return list(found.values())


def end(owns: Sequence[OwnProcess], directory: Path, *, leaders_seconds: float | None = None) -> int:
    """End everything these starts still have running, and check. Returns how many were ended.

    The leaders are asked first, since an engine then takes its own workers down in good order; then the rest is
    asked, then killed. Blocks up to the sum of the waits above, of which `leaders_seconds` replaces the first.
    Calling it again is harmless.

    Raises:
        LabError: something could not be ended.
    """
    before = _members_of_all(owns, directory)
    pids = {one.pid for one in before}
    leaders = [first for first in map(leader, owns) if first is not None]
    _signal(leaders, signal.SIGTERM)
    _wait(leaders, LEADERS_SECONDS if leaders_seconds is None else leaders_seconds)
    _wait(before, FOLLOWERS_SECONDS)
    for number, seconds in ((signal.SIGTERM, TERMINATE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        rest = _members_of_all(owns, directory)
        pids.update(one.pid for one in rest)
        _signal(rest, number)
        _wait(rest, seconds)
    left = _members_of_all(owns, directory)
    if left:
        names = ", ".join(str(one.pid) for one in left)
        raise LabError(
            f"These processes of the lab could not be ended: {names}. End them by hand: kill -9 PID."
        )
    return len(pids)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM are ignored: a clean-up of seconds must not be cut off half-way."""
    try:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: it receives no signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible_by_sigterm() -> Iterator[None]:
    """Within it SIGTERM raises `SystemExit`, so that clean-up runs; only the main thread can ask for that."""

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread: whoever owns the process handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _pid_of_another(own: OwnProcess) -> bool:
    """Whether the pid lives on as somebody else's: then our session is gone, for a session keeps its pid taken."""
    with suppress(psutil.NoSuchProcess):
        return not _is(psutil.Process(own.pid), own)
    return False


def _is(process: psutil.Process, own: OwnProcess) -> bool:
    return abs(process.create_time() - own.created_seconds) <= CREATION_TIME_TOLERANCE_SECONDS


def _left_behind(own: OwnProcess, directory: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if (
                process.pid != own.pid
                and os.getsid(process.pid) == own.pid
                and process.create_time() >= own.created_seconds - CREATION_TIME_TOLERANCE_SECONDS
                and Path(process.cwd()) == directory.resolve()
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                yield process


def _members_of_all(owns: Iterable[OwnProcess], directory: Path) -> list[psutil.Process]:
    _reap()
    return [one for own in owns for one in members(own, directory)]


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _wait(processes: Sequence[psutil.Process], seconds: float) -> None:
    psutil.wait_procs(processes, timeout=seconds)
    _reap()


def _reap() -> None:
    """Take leave of children of this very process that have ended, so that no zombie stays."""
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]
