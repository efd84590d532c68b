"""How far reading is, on stderr: a bar on a terminal, a line now and then in a log file, nothing for small files."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

SECONDS_BETWEEN_LINES = 30.0
_QUIET_SECONDS = 1.0
"""A bar for what is read at once would only flicker."""


class ReadingProgress:
    """Shows bytes read. Use it as a context manager, from one thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: int, total: int) -> None:
        """So many bytes of so many are read."""
        now = time.monotonic()
        if now - self._began < _QUIET_SECONDS:
            return
        if not self._console.is_terminal:
            if now - self._said >= SECONDS_BETWEEN_LINES:
                self._said = now
                self._console.print(Text(f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB read"), soft_wrap=True)
            return
        if self._bar is None:
            self._bar = Progress(
                TextColumn("reading"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.add_task("reading", total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)
