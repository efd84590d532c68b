"""Waits until the processes of a pair answer, and says why one does not come up. Reads logs, starts nothing."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from falseok_lab.errors import LabError, PortTakenError
from falseok_lab.processes import OwnProcess, alive
from falseok_lab.report import Reporter

SECONDS_BETWEEN_LOOKS = 0.5
ERROR_LINES = 12
LINES_AFTER_ERROR = 4
LINE_CHARACTERS = 400
_TAIL_BYTES = 256 * 1024
_PORT_TAKEN = "EADDRINUSE"
"""torch.distributed says so. vLLM finds free ports for its processes first and has them used seconds later."""
_NOISE = re.compile(r"^\(\w+( pid=\d+)?\)\s*|^(INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\]\s*")
_TELLING = re.compile(r"\b(ERROR|CRITICAL|Traceback|Killed|[A-Z]\w*(Error|Exception))\b")


def wait_until_healthy(
    processes: Sequence[OwnProcess], urls: Mapping[str, str], reporter: Reporter, *, timeout_seconds: float
) -> None:
    """Block until every `urls[role]/health` answers 200.

    Raises:
        PortTakenError: a process ended because a port it had found free was taken when it came to use it.
        LabError: a process ended otherwise, or the time is over; the message shows the telling lines of its log.
    """
    begun = time.monotonic()
    waiting = {own.role: own for own in processes}
    with httpx.Client(timeout=2.0, trust_env=False) as client:
        while waiting:
            seconds = time.monotonic() - begun
            for role, own in list(waiting.items()):
                if _healthy(client, urls[role]):
                    del waiting[role]
                elif not alive(own):
                    raise _ended(own)
            if waiting and seconds > timeout_seconds:
                raise LabError(_too_late(waiting, seconds))
            _tell(waiting, seconds, reporter)
            if waiting:
                time.sleep(SECONDS_BETWEEN_LOOKS)


def last_line(log: Path) -> str:
    """The last line of a log that says something, without vLLM's prefixes."""
    lines = _tail(log)
    return _plain(lines[-1]) if lines else ""


def telling_lines(log: Path) -> list[str]:
    """The lines of a log around the last one that looks like an error, else simply the last lines."""
    lines = _tail(log)
    telling = [number for number, line in enumerate(lines) if _TELLING.search(line)]
    end = min(len(lines), telling[-1] + LINES_AFTER_ERROR + 1) if telling else len(lines)
    return [_plain(line)[:LINE_CHARACTERS] for line in lines[max(0, end - ERROR_LINES) : end]]


def _healthy(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(f"{url}/health").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _tell(waiting: Mapping[str, OwnProcess], seconds: float, reporter: Reporter) -> None:
    said = "  ".join(f"{role}: {last_line(Path(own.log))[:70]}" for role, own in waiting.items())
    reporter.detail(f"{seconds:.0f} s  {said}".rstrip())


def _ended(own: OwnProcess) -> LabError:
    shown = "\n".join(f"    {line}" for line in telling_lines(Path(own.log)))
    message = f"The {own.role} process ended while starting. Its log ({own.log}) says:\n{shown}"
    taken = any(_PORT_TAKEN in line for line in _tail(Path(own.log)))
    return PortTakenError(message) if taken else LabError(message)


def _too_late(waiting: Mapping[str, OwnProcess], seconds: float) -> str:
    last = "\n".join(f"    {role}: {last_line(Path(own.log))}" for role, own in waiting.items())
    return (
        f"Not ready after {seconds:.0f} s:\n{last}\nIs the machine busy? The logs lie in {_folder(waiting)}."
    )


def _folder(waiting: Mapping[str, OwnProcess]) -> Path:
    return Path(next(iter(waiting.values())).log).parent


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if _plain(line).strip()]


def _plain(line: str) -> str:
    return _NOISE.sub("", _NOISE.sub("", line)).rstrip()
