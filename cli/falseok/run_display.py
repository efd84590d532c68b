"""The one line that says how `falseok run` is doing: alive on a terminal, now and then in a log file."""

from typing import Protocol

from rich.console import Console
from rich.status import Status
from rich.text import Text

from falseok.plain_text import printable

SECONDS_BETWEEN_PLAIN_LINES = 30.0


class RunDisplay(Protocol):
    """Shows the state of a run. Used from one thread."""

    def show(self, line: str, now_seconds: float) -> None:
        """The state now; called often."""
        ...

    def announce(self, line: str) -> None:
        """Something happened: stays on the screen."""
        ...

    def close(self) -> None:
        """Give the terminal back. Idempotent."""
        ...


class LiveDisplay:
    """For a terminal: one line that is rewritten in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = ""
        self._status = Status("starting", console=console)
        self._status.start()

    def show(self, line: str, now_seconds: float) -> None:  # noqa: ARG002 - the spinner has its own clock
        """See `RunDisplay.show`."""
        self._line = line
        self._status.update(Text(printable(line)))

    def announce(self, line: str) -> None:
        """See `RunDisplay.announce`."""
        self._console.print(Text(printable(line)), soft_wrap=True)

    def close(self) -> None:
        """See `RunDisplay.close`. The last line stays on the screen."""
        self._status.stop()
        if self._line:
            self.announce(self._line)
            self._line = ""


class PlainDisplay:
    """For a log file: a line when it changed, at most every `SECONDS_BETWEEN_PLAIN_LINES`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = ""
        self._last_line = ""
        self._last_seconds: float | None = None

    def show(self, line: str, now_seconds: float) -> None:
        """See `RunDisplay.show`."""
        self._line = line
        too_soon = (
            self._last_seconds is not None and now_seconds - self._last_seconds < SECONDS_BETWEEN_PLAIN_LINES
        )
        if line == self._last_line or too_soon:
            return
        self._last_line = line
        self._last_seconds = now_seconds
        self.announce(line)

    def announce(self, line: str) -> None:
        """See `RunDisplay.announce`."""
        self._console.print(Text(printable(line)), soft_wrap=True)

    def close(self) -> None:
        """See `RunDisplay.close`. What was held back as too soon is said now."""
        if self._line != self._last_line:
            self._last_line = self._line
            self.announce(self._line)


def display_for(console: Console) -> RunDisplay:
    """The display that fits the console."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)
