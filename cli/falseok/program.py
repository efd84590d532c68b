"""How this very command is typed, so that commands shown can be pasted: `make demo` installs it off the PATH."""

import shlex
import shutil
import sys
from pathlib import Path

NAME = "falseok"


def program() -> str:
    """`falseok` where the shell finds it, else the path it was started by, short where it lies below this folder."""
    started_by = Path(sys.argv[0])
    if started_by.name != NAME or shutil.which(NAME) is not None:
        return NAME
    path, here = started_by.absolute(), Path.cwd()
    return shlex.quote(str(path.relative_to(here)) if path.is_relative_to(here) else str(path))
