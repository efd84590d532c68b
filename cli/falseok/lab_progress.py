"""How the lab's long steps show on a terminal: one line a step, details behind a spinner or as sparse lines."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from falseok.plain_text import printable

SECONDS_BETWEEN_PLAIN_DETAILS = 10.0
"""A log file needs a sign of life, not every second of it."""


class LabProgress:
    """A `falseok_lab.report.Reporter` for people. Use it as a context manager, so that the spinner ends."""

    def __init__(self, console: Console, seconds_now: Callable[[], float]) -> None:
        self._console = console
        self._seconds_now = seconds_now
        self._status: Status | None = None
        self._last_detail_seconds = -SECONDS_BETWEEN_PLAIN_DETAILS

    def __enter__(self) -> Self:
        """Start the spinner where the console is a terminal."""
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the spinner."""
        if self._status is not None:
            self._status.stop()

    def step(self, text: str) -> None:
        """A new step begins: it stays on the screen."""
        self._console.print(Text(printable(text), style="bold"))
        self._last_detail_seconds = -SECONDS_BETWEEN_PLAIN_DETAILS
        if self._status is not None:
            self._status.update(Text(""))

    def show(self, line: Text) -> None:
        """One line that stays, cut where the terminal ends: an answer, a process."""
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def detail(self, text: str) -> None:
        """Something about the current step: replaces the last detail, or is printed now and then."""
        if self._status is not None:
            self._status.update(Text(printable(text)))
            return
        now = self._seconds_now()
        if now - self._last_detail_seconds >= SECONDS_BETWEEN_PLAIN_DETAILS:
            self._last_detail_seconds = now
            self._console.print(Text(f"  {printable(text)}"))
