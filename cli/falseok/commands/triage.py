"""The `falseok triage` group: its commands, in the order they are used."""

import typer

from falseok.commands import triage_affected, triage_incidents, triage_show, triage_sql
from falseok.typer_settings import SETTINGS

app = typer.Typer(**SETTINGS)
app.command("incidents")(triage_incidents.incidents)
app.command("show")(triage_show.show)
app.command("affected")(triage_affected.affected)
app.command("sql")(triage_sql.sql)
