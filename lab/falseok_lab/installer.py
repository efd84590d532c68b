"""Runs the package installer (`uv`) and other long commands, with a sign of life every second.

Knows nothing of what is installed. Package sources are whatever the operator's own `uv` settings say.
"""

import os
import queue
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import uv

from falseok_lab.errors import LabError
from falseok_lab.preflight import GIB
from falseok_lab.report import Reporter

TAIL_LINES = 12
_END = None


class CommandFailedError(LabError):
    """A command ended with an error; `output` holds its last lines."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


def uv_command(*arguments: str) -> list[str]:
    """A `uv` command line. Uses the binary that the package `uv` brings."""
    return [uv.find_uv_bin(), "--no-progress", *arguments]


def run(
    command: Sequence[str],
    what: str,
    reporter: Reporter,
    *,
    measured: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command to its end and return its output; the reporter hears the last line and the time every second.

    Args:
        command: command line.
        what: what it does, for the message when it fails ("installing torch").
        reporter: hears of progress.
        measured: a folder on the disk whose growth is reported.
        environment: added to our own environment.

    Raises:
        CommandFailedError: it ended with an error.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment_without_virtualenv() | dict(environment or {}),
    )
    with child:  # waits for it and closes its output, whatever happens
        try:
            output = _follow(child, what, reporter, measured)
        except BaseException:
            child.terminate()
            raise
    status = child.returncode
    if status != 0:
        tail = "\n".join(output[-TAIL_LINES:])
        raise CommandFailedError(f"{what[:1].upper()}{what[1:]} failed (exit status {status}):\n{tail}", tail)
    return "\n".join(output)


def environment_without_virtualenv() -> dict[str, str]:
    """Our environment without what would point an installer or another Python at our own packages.

    Byte code must be written: without it every start of an engine compiles all of torch and vLLM again.
    """
    left_out = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


def _follow(
    child: "subprocess.Popen[str]", what: str, reporter: Reporter, measured: Path | None
) -> list[str]:
    lines: queue.Queue[str | None] = queue.Queue()
    assert child.stdout is not None  # noqa: S101 - asked for above
    reader = threading.Thread(target=_read, args=(child.stdout, lines), daemon=True)
    reader.start()
    kept: deque[str] = deque(maxlen=2000)
    begun, free_before = time.monotonic(), _free_bytes(measured)
    ended = False
    while not ended:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            pass
        else:
            ended = line is _END
            if line is not None and line.strip():
                kept.append(line.rstrip())
        last = kept[-1].strip() if kept else ""
        reporter.detail(
            f"{what}: {time.monotonic() - begun:.0f} s{_grown(measured, free_before)}  {last}".rstrip()
        )
    reader.join()
    return list(kept)


def _read(stream: IO[str], lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(_END)


def _free_bytes(measured: Path | None) -> int:
    return shutil.disk_usage(measured).free if measured is not None else 0


def _grown(measured: Path | None, free_before: int) -> str:
    grown = free_before - _free_bytes(measured)
    return f", {grown / GIB:.1f} GiB written" if measured is not None and grown > 0 else ""
