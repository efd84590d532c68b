"""The error family of this package. Every message says where the trouble is; the hint says what to do."""


class AlertsError(Exception):
    """Base of all errors this package raises on purpose. `hint` is one sentence for the operator, or empty."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CatalogueError(AlertsError):
    """The cause catalogue does not load. `problems` holds every problem of every file, each with file and path."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(
            f"{len(self.problems)} problem(s) in the cause catalogue:\n{listed}",
            hint="Correct the files named above; nothing is judged with half a catalogue.",
        )


class JudgementError(AlertsError):
    """The store answered something the judge cannot read; the message names the view and the field."""
