"""`falseok ingest logs`: a post-mortem from the log files of engines that had no collector."""

import os
import shutil
import tempfile
import time
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from rich.text import Text

from falseok.consoles import progress, results, write_json
from falseok.entry import EXIT_CANNOT_JUDGE
from falseok.errors import CliError
from falseok.ingest_progress import ReadingProgress
from falseok.ingest_report import IngestReport, report_of
from falseok.options import JsonOption, data_argument
from falseok.plain_text import printable
from falseok.program import program
from falseok.render_ingest import ingest_view
from falseok_pipeline.clock import now_micros
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import open_store
from falseok_pipeline.sources.logs.ingest import Inputs, Read, ingest

EXIT_FOUND = 1


def logs(
    prefill: Annotated[
        list[Path] | None,
        typer.Option(
            "--prefill", metavar="FILE…", help="Logs of prefill servers; several, rotated, compressed."
        ),
    ] = None,
    decode: Annotated[
        list[Path] | None,
        typer.Option(
            "--decode", metavar="FILE…", help="Logs of decode servers; several, rotated, compressed."
        ),
    ] = None,
    access: Annotated[
        list[Path] | None,
        typer.Option(
            "--access",
            metavar="FILE…",
            help="What clients or a router noted of their answers, with request ids: JSON lines or an access log.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Data directory to store the events in [default: a new temporary one].",
            file_okay=False,
        ),
    ] = None,
    time_zone: Annotated[
        str,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="Zone of the servers' clocks, such as Europe/Berlin; logs name none.",
        ),
    ] = "UTC",
    year: Annotated[
        int | None,
        typer.Option(
            "--year",
            metavar="YYYY",
            min=2023,
            max=2100,
            help="Year in which the logs begin, where they don't tell.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn the logs of vLLM 0.26 to 0.33 without the collector into events, and judge what they tell.

    Reads plain, gzip, bzip2 and xz files, with colours, with the prefixes of kubectl, containerd, Docker and journald.
    Reading the same files again changes nothing. Access lines of vLLM carry no request id: answers are then joined to
    failed requests by count and time, and what follows is strong, not proven. With --access it can be.

    Exits with 1 when answers were corrupted, with 2 when a file is unreadable or nothing could be judged.

    \b
    Examples:
      falseok ingest logs --prefill prefill.log --decode decode.log
      falseok ingest logs --prefill p/*.log* --decode d/*.log* --access client.jsonl --data ./post-mortem
      falseok ingest logs --decode decode.log --time-zone America/New_York --json | jq .verdicts
    """
    inputs = Inputs(
        prefill=prefill or [], decode=decode or [], access=access or [], zone=_zone(time_zone), year=year
    )
    if not inputs.prefill and not inputs.decode:
        raise CliError(
            "No log was named.", hint="Name at least one: falseok ingest logs --prefill FILE… --decode FILE…"
        )
    path = data or Path(tempfile.mkdtemp(prefix="falseok-logs-"))
    console = progress()
    began = time.monotonic()
    try:
        with open_store(DataDirectory(path.absolute()), now_micros(), command="ingest logs") as store:
            with ReadingProgress(console) as reading:
                read = ingest(inputs, store, reading.at)
            _check_understood(read)
            report = report_of(read, store, str(path), time_zone)
    except BaseException:
        if data is None:
            _remove_if_empty(path)
        raise
    if as_json:
        write_json(report)
    else:
        results().print(ingest_view(report, data_argument(path)))
    seconds = time.monotonic() - began
    console.print(
        Text(f"{report.lines.read:,} lines, {report.events:,} events in {seconds:.1f} s"), soft_wrap=True
    )
    _say_where(report, path, as_json=as_json)
    _leave(report)


def _zone(name: str) -> tzinfo:
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CliError(
            f"There is no time zone {name} on this system.",
            hint="Name one as in the tz database: UTC, Europe/Berlin, Asia/Tokyo.",
        ) from error


def _check_understood(read: Read) -> None:
    if read.damage and not read.counts.understood:
        raise CliError(read.damage[0], hint="Nothing else in the files could be read as a vLLM log.")
    if not read.counts.understood and not read.counts.dead_letters:
        raise CliError(
            f"None of the {read.counts.lines:,} lines is one that vLLM 0.26 to 0.33 writes about KV transfers.",
            hint="Are these the servers' own logs, with VLLM_LOGGING_LEVEL at WARNING or more?",
        )


def _say_where(report: IngestReport, path: Path, *, as_json: bool) -> None:
    console = progress() if as_json else results()
    shown = data_argument(path)
    lines = [f"The events are in {path}. Go on from there:", f"  {program()} triage incidents{shown}"]
    lines += [f"  {program()} triage show {incident.id}{shown}" for incident in report.incidents[:1]]
    if report.lines.dead_lettered or report.access.dead_lettered:
        lines.append(f"  {program()} status{shown}        (dead letters: lines that could not be read)")
    for line in lines:
        console.print(Text(printable(line)), soft_wrap=True)


def _leave(report: IngestReport) -> None:
    if report.corrupt:
        raise typer.Exit(EXIT_FOUND)
    for damage in report.damage:
        progress().print(Text(printable(damage)), style="red", soft_wrap=True)
    if report.damage:
        raise typer.Exit(EXIT_CANNOT_JUDGE)
    if report.unjudged:
        progress().print(
            Text(
                f"{report.unjudged:,} requests could not be judged from these files. "
                "Add the other side's log, or --access with what clients or the router saw."
            ),
            soft_wrap=True,
        )
        raise typer.Exit(EXIT_CANNOT_JUDGE)


def _remove_if_empty(path: Path) -> None:
    """A directory that nobody named and that holds nothing of use need not stay."""
    if path.name.startswith("falseok-logs-") and os.fspath(path).startswith(tempfile.gettempdir()):
        shutil.rmtree(path, ignore_errors=True)
