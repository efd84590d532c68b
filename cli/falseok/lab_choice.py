"""Which lab a command means when it is not named. Knows the folder layout of the data directory, nothing of engines."""

from falseok.errors import CliError
from falseok_pipeline.data_directory import DataDirectory

ENGINE_CACHE = ".engines"
"""Folder beside the labs where built engines and models are kept."""


def lab_names(data: DataDirectory) -> list[str]:
    """Names of the labs in this data directory, sorted."""
    if not data.lab.is_dir():
        return []
    return sorted(path.name for path in data.lab.iterdir() if path.is_dir() and path.name != ENGINE_CACHE)


def chosen_lab(data: DataDirectory, name: str | None) -> str:
    """The named lab, or the only one there is.

    Raises:
        CliError: no such lab, no lab at all, or several and none named.
    """
    names = lab_names(data)
    if name is not None and name in names:
        return name
    if not names:
        raise CliError(f"There is no lab in {data.path}.", hint="Start one with: falseok lab up")
    if name is not None:
        raise CliError(f"There is no lab named {name}. Labs here: {', '.join(names)}.")
    if len(names) > 1:
        raise CliError(f"There are several labs: {', '.join(names)}.", hint="Say which one with --name.")
    return names[0]
