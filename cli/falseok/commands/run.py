"""`falseok run`: the service: read what engines write, fold, judge, answer queries; embedded, or one of many."""

import threading
import time
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from falseok.consoles import progress, write_json
from falseok.errors import CliError
from falseok.judging import IncidentNews
from falseok.metrics_endpoint import serving_metrics
from falseok.options import DataOption, JsonOption, data_argument
from falseok.run_display import RunDisplay, display_for
from falseok.run_loop import JudgeLoop, RunLoop, StoppedEarlyError
from falseok.service_opening import Reading, open_service, topics_read
from falseok.service_settings import ServiceSettings, read_service_settings
from falseok.signals import stop_on_signals
from falseok.store_choice import StoreOption, open_server, server_address
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.server_store import ServerAddress
from falseok_pipeline.sources.batch_building import STANDARD


class Part(StrEnum):
    """What a process does, where several share the work."""

    STORE = "store"
    JUDGE = "judge"


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
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka", help="Read Kafka topics instead of spools; the FALSEOK_KAFKA_* settings say which."
        ),
    ] = False,
    store: StoreOption = None,
    only: Annotated[
        Part | None,
        typer.Option("--only", help="Do this part alone, where several processes share a server's store."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="HOST:PORT",
            help="Serve /metrics for Prometheus there [default: FALSEOK_METRICS_ADDRESS, else nowhere].",
        ),
    ] = None,
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
      falseok run --kafka --store clickhouses://clickhouse:8443/falseok --only store --metrics 0.0.0.0:9464
      falseok run --store clickhouses://clickhouse:8443/falseok --only judge
    """
    settings = read_service_settings()
    address = server_address(store, settings)
    reading = Reading(kafka, tuple(spool or ()), delete_consumed, batch_bytes)
    _check(reading, address, only)
    directory = DataDirectory.resolve(data)
    news = IncidentNews(data_argument(data))
    stop = threading.Event()
    with ExitStack() as held:
        held.enter_context(stop_on_signals(stop))
        held.enter_context(serving_metrics(metrics or settings.metrics_address))
        if only is Part.JUDGE:
            assert address is not None  # noqa: S101 - `_check` has seen to it
            opened = held.enter_context(open_server(address))
            display = _display(held, f"asks: {address}")
            judge = JudgeLoop(opened, stop, display, time.monotonic, news)
            document: dict[str, Any] = {"incidents": judge.once() if once else judge.until_stopped()}
        else:
            service = held.enter_context(open_service(directory, reading, address, settings))
            display = _display(
                held, f"{_stores(directory, address)}   reads: {_reads(directory, reading, settings)}"
            )
            loop = RunLoop(service, stop, display, time.monotonic, news, judges=only is None)
            try:
                statistics = loop.once() if once else loop.until_stopped()
            except StoppedEarlyError:
                raise CliError(
                    "Stopped before everything was stored; the next run goes on from here."
                ) from None
            document = {"statistics": statistics, "incidents": loop.incidents}
    if as_json:
        write_json(document)


def _check(reading: Reading, address: ServerAddress | None, only: Part | None) -> None:
    if reading.kafka and reading.spools:
        raise CliError(
            "--kafka and --spool exclude each other.", hint="Start two runs with a server's store."
        )
    if only is not None and address is None:
        raise CliError(
            f"--only {only} is for processes that share a server's store.",
            hint="Name the server with --store or FALSEOK_STORE_URL, or leave --only out.",
        )


def _display(held: ExitStack, line: str) -> RunDisplay:
    display = display_for(progress())
    held.callback(display.close)
    display.announce(f"{line}   stop with Ctrl-C")
    return display


def _stores(directory: DataDirectory, address: ServerAddress | None) -> str:
    return f"data: {directory.path}" if address is None else f"store: {address}"


def _reads(directory: DataDirectory, reading: Reading, settings: ServiceSettings) -> str:
    if reading.kafka:
        return f"topics {', '.join(topics_read(settings))} as group {settings.kafka_group}"
    if reading.spools:
        return ", ".join(str(path) for path in reading.spools)
    return f"{directory.spool} and the labs' spools"
