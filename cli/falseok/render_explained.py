"""Everything behind an incident's causes: explanations, every point of the ranking, remedies with side and check.

The long form of `render_incident`, for the reader who has ten minutes instead of one.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from falseok.plain_text import printable
from falseok_alerts.findings import CauseFinding, Remedy
from falseok_alerts.incident import Incident


def explained_view(incident: Incident) -> RenderableType:
    """Each cause in full, in the order of rank."""
    return Group(*(part for cause in incident.causes for part in _cause(cause)))


def _cause(cause: CauseFinding) -> Iterator[RenderableType]:
    yield Text("")
    heading = Text(f"{cause.rank}. {printable(cause.id)}", style="bold")
    heading.append(f"  {cause.confidence}, {cause.score} points", style="not bold")
    yield heading
    yield _indented(cause.explanation)
    yield _indented("points:")
    for point in cause.points:
        yield _indented(f"{point.points:+d}  {point.why}", columns=5)
    for remedy in cause.remedies:
        yield from _remedy(remedy)
    for not_remedy in cause.not_remedies:
        yield _indented(f"✗ {not_remedy.setting} {not_remedy.why}")
    if cause.references:
        yield _indented(f"see: {', '.join(cause.references)}")


def _remedy(remedy: Remedy) -> Iterator[RenderableType]:
    yield _indented(f"do {remedy.order}: {remedy.setting}")
    yield _indented(f"side: {remedy.side}", columns=5)
    yield _indented(f"risk: {remedy.risk}", columns=5)
    yield _indented(f"check: {remedy.verify}", columns=5)


def _indented(text: str, columns: int = 3) -> RenderableType:
    return Padding(Text(printable(text), overflow="fold"), (0, 0, 0, columns))
