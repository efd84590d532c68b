"""The `falseok triage` group: its commands, in the order they are used."""

import typer

from falseok.commands import triage_affected, triage_incidents, triage_show, triage_sql
from falseok.typer_settings import SETTINGS

app = typer.Typer(**SETTINGS)
app.command("incidents", short_help="What is wrong, most severe first.")(triage_incidents.incidents)
app.command("show", short_help="One incident, or one request's story.")(triage_show.show)
app.command("affected", short_help="Every request of an incident.")(triage_affected.affected)
app.command("sql", short_help="A named query, or SQL of your own.")(triage_sql.sql)
