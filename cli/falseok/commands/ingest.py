"""The `falseok ingest` group: evidence that no collector wrote."""

import typer

from falseok.commands import ingest_logs
from falseok.many_values import ManyValuesCommand
from falseok.typer_settings import SETTINGS

app = typer.Typer(**SETTINGS)
app.command("logs", cls=ManyValuesCommand, short_help="Log files of engines without the collector.")(
    ingest_logs.logs
)


@app.callback()
def ingest() -> None:
    """Bring in evidence that no collector wrote."""
