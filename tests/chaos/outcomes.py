"""What came of breaking things: one row a scenario, for the table at the end of the run."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """Counts of one scenario."""

    scenario: str
    done: str
    """What was done, and how often."""
    events: int
    """Distinct events that were sent."""
    lost: int
    double: int
    """Events that are more than one row, or rows of the folds that differ from those of a calm run."""
    bad_lines: int
    unburied: int
    """Bad lines without a dead letter."""
    incidents: int
    paged_twice: int
    """Incidents that were ever known by another id than in a calm run: each would have been a second page."""


OUTCOMES: list[Outcome] = []


def table() -> list[str]:
    """The outcomes as lines of text."""
    rows = [tuple(name.replace("_", " ") for name in Outcome._fields)]
    rows += [
        tuple(f"{value:,}" if isinstance(value, int) else value for value in outcome) for outcome in OUTCOMES
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
