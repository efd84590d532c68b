"""Collects what probes report about themselves."""

from typing import NamedTuple


class Report(NamedTuple):
    """One report of a probe."""

    hook: str
    target: str
    reason: str
    detail: str


class Reports(list[Report]):
    """A reporter that remembers."""

    def __call__(self, hook: str, target: str, reason: str, detail: str) -> None:
        """Keep the report."""
        self.append(Report(hook, target, reason, detail))
