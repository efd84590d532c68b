"""Errors of the command line, and how any error of ours reads on a terminal: what is wrong, and what to do."""

from dataclasses import dataclass

from falseok.entry import missing_service_message
from falseok_alerts.errors import AlertsError
from falseok_lab.errors import LabError
from falseok_pipeline.errors import PipelineError


class CliError(Exception):
    """The command cannot do what was asked. `hint` is what to do about it, in one sentence."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Trouble:
    """An error as a person reads it."""

    message: str
    hint: str


def describe(error: Exception) -> Trouble | None:
    """The error in words, or `None` when it is a defect of ours that deserves its traceback."""
    if isinstance(error, CliError | AlertsError):
        return Trouble(str(error), error.hint)
    if isinstance(error, PipelineError | LabError):
        return Trouble(str(error), "")
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Trouble(missing_service_message(error.name).strip(), "")
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        place = f": {error.filename}" if error.filename else ""
        return Trouble(
            f"{error.strerror or error}{place}", "Check the path, its permissions and the free space."
        )
    return None
