"""`falseok run`: the embedded service in one process: tail the spools, fold, judge, answer queries."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from falseok.consoles import progress, write_json
from falseok.entry import installed_version
from falseok.errors import CliError
from falseok.judging import IncidentNews
from falseok.options import DataOption, JsonOption, data_argument
from falseok.run_display import display_for
from falseok.run_loop import RunLoop, StoppedEarlyError
from falseok.signals import stop_on_signals
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service
from falseok_pipeline.sources.batch_building import STANDARD
from falseok_pipeline.sources.spool import SpoolDirectory


def run(
    data: DataOption = None,
    spool: Annotated[
        list[Path] | None,
        typer.Option(
            "--spool",
            metavar="DIR",
            help="Read this spool instead of the data directory's own; repeatable.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    delete_consumed: Annotated[
        bool,
        typer.Option(
            "--delete-consumed", help="Delete segments of --spool directories once they are stored."
        ),
    ] = False,
    batch_bytes: Annotated[
        int,
        typer.Option(
            "--batch-bytes",
            metavar="BYTES",
            min=65_536,
            help="Most that is read and stored at once: smaller means less memory and more, smaller inserts.",
        ),
    ] = STANDARD.size_bytes,
    once: Annotated[
        bool, typer.Option("--once", help="Store and judge what is there now, then stop.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Store events as engines write them, judge them, and answer the other commands' queries meanwhile.

    Ends cleanly on Ctrl-C and SIGTERM; killed, it goes on where it was and counts nothing twice.

    \b
    Examples:
      falseok run
      falseok run --data /var/lib/falseok
      falseok run --data /tmp/look --spool /mnt/engine-a/spool --spool /mnt/engine-b/spool --once --json
    """
    directory = DataDirectory.resolve(data)
    stop = threading.Event()
    spools = named_spools(spool, delete_consumed=delete_consumed)
    with (
        stop_on_signals(stop),
        Service.open(
            directory,
            version=installed_version(),
            spools=spools,
            limits=dataclasses.replace(STANDARD, size_bytes=batch_bytes),
        ) as service,
    ):
        display = display_for(progress())
        display.announce(f"data: {directory.path}   reads: {_reads(directory, spool)}   stop with Ctrl-C")
        try:
            loop = RunLoop(service, stop, display, time.monotonic, IncidentNews(data_argument(data)))
            statistics = loop.once() if once else loop.until_stopped()
        except StoppedEarlyError:
            raise CliError("Stopped before everything was stored; the next run goes on from here.") from None
        finally:
            display.close()
    if as_json:
        write_json({"statistics": statistics, "incidents": loop.incidents})


def named_spools(
    directories: Iterable[Path] | None, *, delete_consumed: bool
) -> Callable[[], list[SpoolDirectory]] | None:
    """The spools of the command line, or `None` for those of the data directory.

    A named spool is somebody else's: its segments stay unless their deletion was asked for.
    """
    if not directories:
        return None
    listed = [SpoolDirectory(path.absolute(), delete_consumed=delete_consumed) for path in directories]
    return lambda: listed


def _reads(directory: DataDirectory, spools: list[Path] | None) -> str:
    if spools:
        return ", ".join(str(path) for path in spools)
    return f"{directory.spool} and the labs' spools"
