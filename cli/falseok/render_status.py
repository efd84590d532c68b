"""The status report for people: the run, spools, engines, collectors, requests, and what to look at."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from falseok.plain_text import moment, printable
from falseok.status_report import Record, SpoolState, StatusReport
from falseok_alerts.gather import rfc3339


def status_view(report: StatusReport) -> RenderableType:
    """Everything in the report; nothing is cut, long lines wrap."""
    body = Table.grid(padding=(0, 1, 0, 0), expand=True)
    body.add_column(width=10, style="bold", no_wrap=True)
    body.add_column(ratio=1, overflow="fold")
    body.add_row("DATA", _text(report.data))
    body.add_row("RUN", _run(report))
    body.add_row("SPOOLS", _lines([_spool(spool) for spool in report.spools]))
    body.add_row("ENGINES", _lines([_engine(engine) for engine in report.engines]))
    body.add_row("COLLECTORS", _lines([_collector(collector) for collector in report.collectors]))
    body.add_row("REQUESTS", _text(_requests(report)))
    body.add_row("PROBLEMS", _lines(report.problems, style="yellow"))
    return body


def _run(report: StatusReport) -> RenderableType:
    run = report.run
    if run is None:
        return _text("not up")
    if not run.pid:
        return _text("another process holds the data directory")
    answers = "answers queries" if run.query_socket else "answers no queries"
    return _text(
        f"falseok {run.command}, process {run.pid}, since {moment(rfc3339(run.started_at_micros))}, {answers}"
    )


def _spool(spool: SpoolState) -> str:
    return f"{spool.path}  {spool.segments} segments, {spool.bytes_behind:,} of {spool.bytes:,} bytes behind"


def _engine(engine: Record) -> str:
    parts = [
        engine["engine_id"],
        engine["kv_role"] or "role unknown",
        f"vLLM {engine['vllm_version'] or 'unknown'}",
        engine["model"],
        engine["dtype"],
        f"last event {moment(engine['last_seen'])}",
    ]
    return "  ".join(str(part) for part in parts if part)


def _collector(collector: Record) -> str:
    hooks = f"hooks: {collector['hooks_active']} active of {collector['hooks_known']}"
    return "  ".join(
        (
            f"{collector['process'] or 'a process'} of {collector['engine_id'] or 'an unknown engine'}",
            f"pid {collector['pid']} on {collector['host'] or 'an unknown host'}",
            f"{collector['events_seen']:,} events",
            hooks if collector["last_heartbeat"] else "no heartbeat yet",
            *(["captures the text of answers"] if collector["captures_text"] else []),
            *(_sink(sink) for sink in collector["sinks"]),
        )
    )


def _sink(sink: Record) -> str:
    details = [f"{sink['events_sent']:,} sent"]
    details += [f"{sink['events_waiting']:,} waiting"] if sink["events_waiting"] else []
    details += [f"{sink['events_lost']:,} lost"] if sink["events_lost"] else []
    return f"{sink['name']} {sink['state']} ({', '.join(details)})"


def _requests(report: StatusReport) -> str:
    return ", ".join(f"{row['requests']:,} {row['verdict']}" for row in report.requests) or "none seen"


def _lines(lines: list[str], style: str = "") -> RenderableType:
    if not lines:
        return Text("none")
    return Group(*(_text(line, style) for line in lines))


def _text(line: str, style: str = "") -> Text:
    return Text(printable(line), style=style, overflow="fold")
