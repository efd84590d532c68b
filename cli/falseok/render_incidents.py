"""The list of incidents, one block each: enough to choose which one to open first."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from falseok.plain_text import moment, printable
from falseok.program import program
from falseok_alerts.incident import Incident


def incidents_view(incidents: Sequence[Incident], data_argument: str = "") -> RenderableType:
    """Most severe first, as given: id, verdict, what happened; since when; the first cause."""
    blocks = [_block(incident) for incident in incidents]
    more = (
        Text(f"\nopen one with: {program()} triage show {incidents[0].id}{data_argument}")
        if incidents
        else Text("")
    )
    return Group(*blocks, more)


def _block(incident: Incident) -> RenderableType:
    first = Text(overflow="fold")
    first.append(incident.id, style="bold")
    first.append(f"  {incident.verdict.upper()}, {incident.evidence.upper()}  ", style="bold red")
    first.append(printable(incident.headline))
    lines = [
        f"since {moment(incident.first_seen)}, last {moment(incident.last_seen, after=incident.first_seen)}",
        *(f"{cause.rank}. {_cause_line(incident, cause.rank)}" for cause in incident.causes[:2]),
    ]
    return Group(first, *(Padding(Text(printable(line), overflow="fold"), (0, 0, 0, 14)) for line in lines))


def _cause_line(incident: Incident, rank: int) -> str:
    cause = incident.causes[rank - 1]
    if cause.difference is None:
        return cause.title
    difference = cause.difference
    return (
        f"{difference.factor}: prefill {difference.prefill}, decode {difference.decode} ({cause.confidence})"
    )
