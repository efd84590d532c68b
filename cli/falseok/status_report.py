"""What is seen, what is missing and what was lost, as one document. Reads the store and the spools; judges nothing."""

from collections.abc import Mapping
from typing import Any

import msgspec

from falseok.statements import statement
from falseok_alerts.gather import rfc3339
from falseok_pipeline.claim import RunInfo
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.sources.offsets import Offsets
from falseok_pipeline.sources.segments import list_directory
from falseok_pipeline.store import Store

Record = Mapping[str, Any]


class SpoolState(msgspec.Struct, frozen=True, kw_only=True):
    """One spool directory: what lies there, and how much of it is not durable in the store yet."""

    path: str
    segments: int
    bytes: int
    bytes_behind: int


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report; `problems` says in sentences what a person should look at."""

    data: str
    run: RunInfo | None
    store: bool
    spools: list[SpoolState]
    engines: list[Record] = []
    collectors: list[Record] = []
    dead_letters: list[Record] = []
    requests: list[Record] = []
    problems: list[str] = []


def spool_states(data: DataDirectory) -> list[SpoolState]:
    """The data directory's own spool and the labs'. Raises `PipelineError` when the offsets cannot be read."""
    offsets = Offsets(data.offsets_file)
    states = []
    for directory in data.spools():
        sizes = list_directory(directory).sizes
        behind = sum(max(0, size - offsets.of(segment.key)) for segment, size in sizes.items())
        states.append(
            SpoolState(
                path=str(directory), segments=len(sizes), bytes=sum(sizes.values()), bytes_behind=behind
            )
        )
    return states


def with_store(report: StatusReport, store: Store) -> StatusReport:
    """The report with what the store says. Times become RFC 3339. Raises `QueryError`."""
    answers = {name: _rows(store, name) for name in ("engines", "collectors", "dead_letters", "requests")}
    return msgspec.structs.replace(report, store=True, **answers)


def with_problems(report: StatusReport) -> StatusReport:
    """The report with its problems in words, the gravest first."""
    return msgspec.structs.replace(report, problems=list(_problems(report)))


def _rows(store: Store, name: str) -> list[Record]:
    return [_readable(row) for row in store.query(statement(f"status_{name}"))]


def _readable(row: dict[str, Any]) -> Record:
    times = ("first_seen", "last_seen", "last_heartbeat")
    return {key: rfc3339(value) if key in times and value else value for key, value in row.items()}


def _problems(report: StatusReport) -> list[str]:
    found = []
    if not report.store:
        found.append("There is no store yet: start `falseok run`, or try `falseok demo`.")
    elif not report.engines:
        found.append(
            "No engine was seen: is the collector installed beside vLLM, and does it write to a spool read here?"
        )
    found += [
        f"{letters['count']:,} dead letters ({letters['reason']}): {letters['example']}"
        for letters in report.dead_letters
    ]
    found += [problem for collector in report.collectors for problem in _problems_of(collector)]
    found += [
        f"Engine {engine['engine_id']}: no engine.config event, so no cause can be named from it."
        for engine in report.engines
        if not engine["has_config"]
    ]
    if report.run is None and any(spool.bytes_behind for spool in report.spools):
        found.append("Events wait in the spool and nobody stores them: start `falseok run`.")
    return found


def _problems_of(collector: Record) -> list[str]:
    who = f"Collector {collector['process'] or '?'} of {collector['engine_id'] or 'an unknown engine'} (pid {collector['pid']})"
    losses = {
        "dropped because the ring was full": collector["events_dropped"],
        "dropped because the spool passed its bound": collector["events_spilled"],
        "numbered but never arrived": collector["lost_events"],
    }
    found = [f"{who}: {count:,} events {how}." for how, count in losses.items() if count > 0]
    found += [f"{who}: {trouble}" for sink in collector["sinks"] if (trouble := _trouble_of(sink))]
    hooks = [
        f"{who}: hook {hook}; the evidence it gives is missing." for hook in collector["hooks_in_trouble"]
    ]
    return found + hooks


def _trouble_of(sink: Record) -> str:
    """What a person should know about a sink, in one sentence; empty when it is well."""
    name, lost = sink["name"], sink["events_lost"]
    reason = f" ({sink['last_error']})" if sink["last_error"] else ""
    if sink["state"] == "unavailable":
        return f"the {name} sink's library is not installed; the spool takes its events."
    parts = [f"lost {lost:,} events"] if lost else []
    if sink["state"] in {"retrying", "spooling"}:
        parts.append(f"keeps {sink['events_waiting']:,} events that nobody takes{reason}")
    return f"the {name} sink {' and '.join(parts)}." if parts else ""
