"""How long work tells a person where it is; it must not know how that is shown."""

from typing import Protocol


class Reporter(Protocol):
    """Receives progress. Both methods are called from the thread that does the work and must not block long."""

    def step(self, text: str) -> None:
        """A new step begins."""

    def detail(self, text: str) -> None:
        """Something about the step at hand; may come every second, a later one replaces an earlier one."""


class Silent:
    """A reporter that says nothing."""

    def step(self, text: str) -> None:
        """Ignore the step."""

    def detail(self, text: str) -> None:
        """Ignore the detail."""
