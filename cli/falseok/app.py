"""Wires the commands. Nothing else: each command lives in its own file under `commands`."""

from typing import Annotated

import typer

from falseok.commands import demo, ingest, lab, run, schema, status, topics, triage
from falseok.entry import installed_version
from falseok.reporting_group import ReportingGroup
from falseok.typer_settings import SETTINGS

app = typer.Typer(
    name="falseok",
    cls=ReportingGroup,
    help="Finds the HTTP 200s that lie: incident triage for disaggregated LLM serving.",
    epilog="Exit status: 0 fine, 1 what was looked for was found (only where a command says so), 2 unreadable input "
    "or nothing that could be judged.",
    **SETTINGS,
)
app.command("run", short_help="Store, fold and judge events as they come.")(run.run)
app.command("status", short_help="What is seen, what is missing, what was lost.")(status.status)
app.command("demo", short_help="Replay a recorded incident of real engines and show it.")(demo.demo)
app.add_typer(triage.app, name="triage", help="Look into incidents and requests.")
app.add_typer(ingest.app, name="ingest", help="Bring in logs of engines without the collector.")
app.add_typer(topics.app, name="topics", help="Make and check the topics on Kafka.")
app.add_typer(schema.app, name="schema", help="Bring a store to the schema of this release.")
app.add_typer(lab.app, name="lab", help="Run two real engines on this machine.")


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"falseok {installed_version()}")
        raise typer.Exit


@app.callback()
def falseok(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Finds the HTTP 200s that lie: incident triage for disaggregated LLM serving."""
