"""Markdown for generated pages."""

from collections.abc import Sequence

GENERATED = (
    "<!-- Written by `python -m falseok_collector.reference docs`: change the sources, not this page. -->"
)


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table; pipes in cells are escaped."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
