"""The report of `falseok ingest logs` for a person: engines, what failed, how it was judged, and what was read."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from falseok.ingest_report import EnginePart, FailuresPart, HandshakePart, IngestReport, LinesPart
from falseok.plain_text import moment, printable
from falseok.render_incidents import incidents_view

_ARGUMENT_CHARACTERS = 120


def ingest_view(report: IngestReport, data_argument: str) -> RenderableType:
    """All of the report, sections of plain lines."""
    sections: list[tuple[str, list[str]]] = [
        ("ENGINES", [line for engine in report.engines for line in _engine(engine)]),
        ("DIFFER", [_difference(row) for row in report.differing_factors]),
        ("HANDSHAKES", [line for pair in report.handshakes for line in _handshake(pair)]),
        ("FAILURES", _failures(report.failures, report.answers)),
        ("LEASES", _leases(report)),
        ("VERDICTS", [_verdict(row) for row in report.verdicts]),
        ("LINES", [*_lines(report.lines), *_access(report.access), *_files(report)]),
    ]
    blocks: list[RenderableType] = []
    for title, lines in sections:
        if lines:
            blocks.append(Text(title, style="bold"))
            blocks += [_indented(line) for line in lines]
    if report.incidents:
        blocks += [Text("INCIDENTS", style="bold"), incidents_view(report.incidents, data_argument)]
    return Group(*blocks)


def _indented(line: str) -> RenderableType:
    """The line, and what is folded of it, as far in as the line begins."""
    text = line.lstrip(" ")
    return Padding(Text(printable(text), overflow="fold"), (0, 0, 0, 2 + len(line) - len(text)))


def _engine(engine: EnginePart) -> list[str]:
    version = f"vLLM {engine.vllm_version}" if engine.vllm_version else "vLLM, version not in the log"
    facts = [engine.kv_role, engine.kv_connector, engine.dtype, engine.attention_backend]
    known = ", ".join(fact for fact in facts if fact) or "its start is not in the log"
    lines = [f"{engine.role} {engine.engine_id}: {version}, {known}"]
    if engine.started_at:
        lines[0] += f", from {moment(engine.started_at)}"
    lines += [f"    {name} = {_argument(value)}" for name, value in engine.non_default_arguments.items()]
    return lines


def _argument(value: Any) -> str:
    if isinstance(value, Mapping):
        told = {name: inner for name, inner in value.items() if inner not in (None, {}, [], False)}
        return ", ".join(f"{name}={inner}" for name, inner in told.items())[: 3 * _ARGUMENT_CHARACTERS]
    return str(value)[:_ARGUMENT_CHARACTERS]


def _difference(row: Mapping[str, Any]) -> str:
    return f"{row['factor']}: prefill {row['prefill']}, decode {row['decode']}"


def _handshake(pair: HandshakePart) -> list[str]:
    kinds = ", ".join(pair.failure_types)
    told = (
        f"{pair.failures:,} of {pair.attempts:,} attempts in the log failed{f' ({kinds})' if kinds else ''}"
    )
    lines = [f"{pair.decode_engine_id} → {pair.prefill_engine_id}: {told}"]
    if pair.local_hash:
        lines += [f"    local (decode)   {pair.local_hash}", f"    remote (prefill) {pair.remote_hash}"]
    elif pair.message:
        lines.append(f"    {pair.message[:200]}")
    return lines


def _failures(failures: FailuresPart, answers: Mapping[str, int]) -> list[str]:
    told = ", ".join(f"{count:,} with {status}" for status, count in answers.items())
    lines = [f"answers of decode in its access lines: {told}"] if told else []
    if not failures.requests:
        return [*lines, "no failed transfer in the logs"]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in failures.failure_types.items())
    lines.append(f"{failures.requests:,} requests with a failed transfer ({kinds})")
    joins = (
        (failures.joined_by_id, "joined to their answer by request id"),
        (failures.joined_by_count_and_time, "joined to answers by count and time"),
        (failures.joined_though_counts_do_not_fit, "answered it seems, but the counts do not fit"),
        (failures.ended_in_error_by_log, "of which the log itself tells how they ended"),
        (failures.without_answer, "without an answer that could be theirs"),
    )
    lines += [f"    {count:,} {meaning}" for count, meaning in joins if count]
    lines += [
        f"    {moment(window.first_seen)} to {moment(window.last_seen, after=window.first_seen)}: {window.note}"
        f"{'' if window.fits else '  (does not fit)'}"
        for window in failures.windows
        if window.note
    ]
    return lines


def _leases(report: IngestReport) -> list[str]:
    leases = report.leases
    lines = []
    if leases.expired:
        readers = f"{leases.without_readers:,} of them read by nobody"
        failed = f"{leases.of_failed_requests:,} of requests that failed on decode"
        lines.append(f"{leases.expired:,} leases expired on prefill, {readers}, {failed}")
    if report.late_notices:
        lines.append(f"{report.late_notices:,} notices of reads after the blocks were given back")
    return lines


def _verdict(row: Mapping[str, Any]) -> str:
    level = "" if row["evidence"] == "none" else f", {row['evidence']}"
    reason = f", {row['reason']}" if row["reason"] else ""
    return f"{row['requests']:,} {row['verdict']}{reason}{level}: {row['explanation']}"


def _lines(lines: LinesPart) -> list[str]:
    understood, meaningless = sum(lines.understood.values()), sum(lines.meaningless.values())
    told = f"{understood:,} understood, {meaningless:,} meaningless, {lines.dead_lettered:,} dead letters"
    return [
        f"{lines.read:,} read: {told}",
        f"    understood: {_counts(lines.understood)}",
        f"    meaningless: {_counts(lines.meaningless)}",
    ]


def _access(lines: LinesPart) -> list[str]:
    if not lines.read:
        return []
    told = (
        f"{sum(lines.understood.values()):,} of failed requests, {_counts(lines.meaningless) or 'none else'}"
    )
    return [f"{lines.read:,} access records: {told}, {lines.dead_lettered:,} dead letters"]


def _files(report: IngestReport) -> list[str]:
    years = sorted({f"{file.year} ({file.year_from})" for file in report.files})
    lines = [f"times read as {report.time_zone}, year {', '.join(years)}"] if years else []
    lines += [f"{path} repeats another file and was left out" for path in report.repeated_files]
    return [*lines, *report.damage]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
