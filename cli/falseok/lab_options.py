"""The options that several lab commands share."""

from pathlib import Path
from typing import Annotated

import typer

from falseok.lab_choice import ENGINE_CACHE
from falseok_lab.connectors import CONNECTORS
from falseok_lab.faults import FAULTS
from falseok_lab.models import MODELS
from falseok_pipeline.data_directory import DataDirectory

NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Which lab; not needed while there is only one.")
]
VllmOption = Annotated[str, typer.Option("--vllm", metavar="VERSION", help="vLLM version of both engines.")]
ModelOption = Annotated[str, typer.Option("--model", metavar="MODEL", help=f"One of: {', '.join(MODELS)}.")]
FaultOption = Annotated[str, typer.Option("--fault", metavar="FAULT", help=f"One of: {', '.join(FAULTS)}.")]
ConnectorOption = Annotated[
    str, typer.Option("--connector", metavar="CONNECTOR", help=f"One of: {', '.join(CONNECTORS)}.")
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        envvar="FALSEOK_LAB_CACHE",
        file_okay=False,
        help="Where built engines and models are kept [default: lab/.engines in the data directory].",
    ),
]
RequestsOption = Annotated[int, typer.Option("--requests", "-n", min=1, help="How many requests to send.")]


def cache_directory(data: DataDirectory, cache: Path | None) -> Path:
    """Where engines and models are kept: as named, else beside the labs of the data directory."""
    return (cache or data.lab / ENGINE_CACHE).absolute()
