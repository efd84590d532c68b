"""The options that many commands share, declared once."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data directory [default: FALSEOK_DATA, else ~/.local/share/falseok].",
        file_okay=False,
    ),
]
"""Names the data directory on every command."""

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout; everything else goes to stderr.")
]
"""For readers that are machines."""

CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV with a header line on stdout.")]
"""For spreadsheets and scripts."""


def data_argument(data: Path | None) -> str:
    """What to append to a command that is shown, so that it finds the same data: empty where the default was used."""
    return "" if data is None else f" --data {shlex.quote(str(data))}"
