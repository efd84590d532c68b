"""Turns our errors into one clear message and exit status 2. Defects keep their traceback."""

import os
import sys
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from falseok.consoles import progress
from falseok.entry import EXIT_CANNOT_JUDGE
from falseok.errors import describe
from falseok.plain_text import printable


class ReportingGroup(TyperGroup):
    """The root group; subgroups are invoked through it, so this is the only place that catches."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of ours ends as `Exit(2)` after its message was printed on stderr."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read our output has enough (`| head`). What is still buffered must not raise once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            trouble = describe(error)
            if trouble is None:
                raise
            console = progress()
            for line in trouble.message.splitlines() or [""]:
                console.print(Text(printable(line), overflow="fold"), style="red", soft_wrap=True)
            if trouble.hint:
                console.print(Text(printable(trouble.hint)), soft_wrap=True)
            raise typer.Exit(EXIT_CANNOT_JUDGE) from error
