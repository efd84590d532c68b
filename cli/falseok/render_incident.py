"""The incident as the person who was paged must see it: what, who, why, evidence, what to do, what to type next.

Shows exactly the facts of `falseok_alerts.incident.Incident`, in the order of the design; judges nothing.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from falseok.next_commands import next_commands
from falseok.plain_text import moment, percentage, printable
from falseok_alerts.facts import EngineFacts
from falseok_alerts.findings import CauseFinding, NotRemedy, Remedy
from falseok_alerts.incident import Incident

_LABEL_COLUMNS = 9
_TAG_COLUMNS = 16
"""Longest confidence or risk that stands in its own column; a longer risk gets a line of its own."""

_CONFIDENCE_STYLE = {"certain": "bold green", "likely": "yellow", "possible": "dim"}
_EVIDENCE_STYLE = {"proven": "bold red", "strong": "bold red", "suspected": "yellow"}


def incident_view(incident: Incident, data_argument: str = "") -> RenderableType:
    """The whole view. Every text that came from an engine is made printable; nothing is cut, long lines wrap.

    `data_argument` is appended to the commands under NEXT.
    """
    body = Table.grid(padding=(0, 1, 0, 0), expand=True)
    body.add_column(width=_LABEL_COLUMNS, style="bold", no_wrap=True)
    body.add_column(ratio=1, overflow="fold")
    body.add_row("WHO", _engines(incident))
    body.add_row("WHY", _causes(incident.causes))
    body.add_row("EVIDENCE", _lines(incident.evidence_lines))
    body.add_row("DO", _remedies(incident.causes))
    return Group(_head(incident), body, _next(next_commands(incident, data_argument)))


def _next(commands: list[str]) -> Text:
    """The commands outside the table, whose cells are padded: a blank after a continuation mark breaks the paste."""
    text = Text(overflow="fold")
    text.append("NEXT".ljust(_LABEL_COLUMNS + 1), style="bold")
    text.append(("\n" + " " * (_LABEL_COLUMNS + 1)).join(commands))
    return text


def _head(incident: Incident) -> RenderableType:
    first = Text(overflow="fold")
    first.append(incident.id, style="bold")
    first.append("  ")
    first.append(
        f"{incident.verdict.upper()}, {incident.evidence.upper()}",
        _EVIDENCE_STYLE.get(incident.evidence, "bold"),
    )
    first.append("  ")
    first.append(printable(incident.headline))
    since = (
        f"since {moment(incident.first_seen)}, last {moment(incident.last_seen, after=incident.first_seen)}"
    )
    parts: list[RenderableType] = [first, Padding(Text(since), (0, 0, 0, _LABEL_COLUMNS + 1))]
    if incident.privacy:
        warning = "PRIVACY: a user may have been shown another user's text"
        parts.append(Padding(Text(warning, style="bold red"), (0, 0, 0, _LABEL_COLUMNS + 1)))
    return Group(*parts)


def _engines(incident: Incident) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("model", printable(incident.model or "not known"))
    table.add_row("prefill", _engine(incident.prefill_engine))
    table.add_row("decode", _engine(incident.decode_engine))
    table.add_row("traffic", _share(incident))
    return table


def _engine(engine: EngineFacts) -> str:
    parts = [engine.engine_id or "not known"]
    if engine.version:
        parts.append(f"vLLM {engine.version}")
    if engine.host:
        parts.append(f"on {engine.host}")
    if engine.group and engine.group != engine.engine_id:
        parts.append(f"({engine.group})")
    return printable("  ".join(parts))


def _share(incident: Incident) -> str:
    share = incident.share
    pair = (
        f"{percentage(share.pair)} of this pair's traffic ({incident.affected:,} of {share.pair_requests:,})"
    )
    if share.elsewhere is None:
        return f"{pair}, no other pair was seen"
    return f"{pair}, {percentage(share.elsewhere)} elsewhere"


def _causes(causes: list[CauseFinding]) -> RenderableType:
    table = _tagged_table()
    for cause in causes:
        style = _CONFIDENCE_STYLE.get(cause.confidence, "")
        table.add_row(f"{cause.rank}.", _cause(cause), Text(cause.confidence, style=style))
    return table


def _cause(cause: CauseFinding) -> RenderableType:
    parts: list[RenderableType] = [Text(printable(cause.title))]
    if cause.difference is not None:
        shown = Text(overflow="fold")
        shown.append(printable(cause.difference.factor), style="bold")
        for side in ("prefill", "decode"):
            shown.append(f"   {side} ")
            shown.append(printable(getattr(cause.difference, side) or "not set"), style="bold yellow")
        parts.append(Padding(shown, (0, 0, 0, 2)))
    if cause.id == "unknown":
        parts += [Padding(Text(printable(line)), (0, 0, 0, 2)) for line in cause.evidence]
    return Group(*parts)


def _remedies(causes: list[CauseFinding]) -> RenderableType:
    table = _tagged_table()
    for number, remedy in enumerate(_once_each(causes), start=1):
        tag = remedy.risk if len(remedy.risk) <= _TAG_COLUMNS else ""
        table.add_row(f"{number}.", _remedy(remedy, spelled_out=not tag), Text(printable(tag), style="green"))
    for not_remedy in _not_once_each(causes):
        table.add_row(
            Text("✗", style="bold red"), Text(printable(f"{not_remedy.setting} {not_remedy.why}")), ""
        )
    return table


def _remedy(remedy: Remedy, *, spelled_out: bool) -> RenderableType:
    setting = Text(printable(remedy.setting))
    if not spelled_out:
        return setting
    details = f"side: {remedy.side}", f"risk: {remedy.risk}"
    return Group(setting, *(Padding(Text(printable(line), style="yellow"), (0, 0, 0, 2)) for line in details))


def _once_each(causes: list[CauseFinding]) -> Iterator[Remedy]:
    """Remedies of all causes, the first cause's first; the same setting is said once, with its first wording."""
    seen: set[str] = set()
    for cause in causes:
        for remedy in cause.remedies:
            if remedy.setting not in seen:
                seen.add(remedy.setting)
                yield remedy


def _not_once_each(causes: list[CauseFinding]) -> Iterator[NotRemedy]:
    seen: set[tuple[str, str]] = set()
    for cause in causes:
        for not_remedy in cause.not_remedies:
            key = (not_remedy.setting, not_remedy.why)
            if key not in seen:
                seen.add(key)
                yield not_remedy


def _tagged_table() -> Table:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(width=2, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    return table


def _lines(lines: list[str]) -> RenderableType:
    return Group(*(Text(printable(line), overflow="fold") for line in lines)) if lines else Text("none seen")
