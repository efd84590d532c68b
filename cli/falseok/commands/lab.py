"""The `falseok lab` group: two real vLLM engines and a router on this machine."""

import typer

from falseok.commands import lab_down, lab_drive, lab_record, lab_status, lab_tour, lab_up
from falseok.typer_settings import SETTINGS

app = typer.Typer(**SETTINGS)
app.command("up", short_help="Start two real engines and a router.")(lab_up.up)
app.command("drive", short_help="Send requests and print what the client saw.")(lab_drive.drive)
app.command("status", short_help="Which labs there are, and whether they live.")(lab_status.status)
app.command("record", short_help="Keep a lab's events as a recording.")(lab_record.record)
app.command("down", short_help="End a lab's engines and router.")(lab_down.down)
app.command("tour", short_help="All of it at once: a live incident, shown.")(lab_tour.tour)
