"""`falseok lab record`: keep a lab's events as a recording with its provenance."""

from pathlib import Path
from typing import Annotated

import typer

from falseok.consoles import results, write_json
from falseok.lab_choice import chosen_lab
from falseok.lab_options import NameOption
from falseok.options import DataOption, JsonOption
from falseok_lab.record import record as keep
from falseok_pipeline.data_directory import DataDirectory


def record(
    destination: Annotated[Path, typer.Argument(metavar="DIR", help="New directory for the recording.")],
    name: NameOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Save the events of a lab, compressed, with a manifest: versions, command lines, what the client saw.

    \b
    Examples:
      falseok lab record recordings/my-incident
      falseok lab record recordings/my-incident --name pair --json
    """
    directory = DataDirectory.resolve(data)
    lab = directory.lab / chosen_lab(directory, name)
    manifest = keep(lab, destination.absolute())
    if as_json:
        write_json(manifest)
    else:
        results().print(f"recorded in {destination}", soft_wrap=True)
