"""What a terminal of a given width would show."""

import io

from rich.console import Console, RenderableType

ENGINE_WIDTHS = (80, 120)
"""The widths looked at by eye and held in tests."""


def screen(view: RenderableType, width: int) -> list[str]:
    """The lines of the view without colour, trailing space removed."""
    console = Console(
        file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, no_color=True
    )
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]
