"""The `falseok lab` group: two real vLLM engines and a router on this machine."""

import typer

from falseok.commands import lab_down, lab_drive, lab_record, lab_status, lab_tour, lab_up
from falseok.typer_settings import SETTINGS

app = typer.Typer(**SETTINGS)
app.command("up")(lab_up.up)
app.command("drive")(lab_drive.drive)
app.command("status")(lab_status.status)
app.command("record")(lab_record.record)
app.command("down")(lab_down.down)
app.command("tour")(lab_tour.tour)
