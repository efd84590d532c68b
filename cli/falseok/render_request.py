"""One request on a terminal: what became of it, and the events of both engines one under the other."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from falseok.plain_text import printable
from falseok.request_story import Story

_LONGEST_VALUE_CHARACTERS = 100
"""A longer value is cut in the table; `--json` has everything."""

_LEFT_OUT = frozenset(
    {
        "leg",
        "salt_id",
        "tokens_hashed",
        "remote_engine_id",
        "remote_request_id",
        "endpoint",
        "model",
        "choices",
        "rank",
    }
)
"""Fields that say what the columns or the head say already, or mean nothing to the eye."""


def request_view(story: Story) -> RenderableType:
    """Verdict, explanation, what is missing, then the events."""
    request = story.request
    head = Text(overflow="fold")
    head.append(printable(request["external_id"] or request["request_id"]), style="bold")
    head.append(f"  {str(request['verdict']).upper()}, {str(request['evidence']).upper()}", style="bold red")
    lines = [printable(line) for line in _lines(request)]
    hint = Text("bold: the events that prove the verdict; --json has every field", style="dim")
    return Group(head, *(Text(f"  {line}", overflow="fold") for line in lines), _events(story), hint)


def _lines(request: Mapping[str, Any]) -> Iterator[str]:
    yield str(request["explanation"])
    if request["missing"]:
        yield f"missing evidence: {', '.join(request['missing'])}"
    yield f"prefill {request['prefill_engine_id'] or 'not known'}  decode {request['decode_engine_id'] or 'not known'}"
    yield f"engine's own id {request['request_id']}"


def _events(story: Story) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("time UTC", no_wrap=True)
    table.add_column("leg", no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what it says", overflow="fold")
    proof = set(story.request["evidence_events"])
    for event in story.events:
        style = "bold" if event["id"] in proof else ""
        values = (_clock(event["time"]), event["leg"], event["name"], attributes_line(event["attrs"]))
        table.add_row(*(Text(printable(value), style=style) for value in values))
    return table


def attributes_line(attributes: Mapping[str, Any]) -> str:
    """The event's own fields as `name value, …`, without ids, digests and lists."""
    shown = ((name, _text(value)) for name, value in attributes.items() if name not in _LEFT_OUT)
    return ", ".join(f"{name} {text}" for name, text in shown if text)


def _text(value: Any) -> str:
    if isinstance(value, list | dict):
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    is_digest = len(text) == hashlib.sha256().digest_size * 2 and text.isalnum()
    if is_digest:
        return ""
    return text if len(text) <= _LONGEST_VALUE_CHARACTERS else f"{text[:_LONGEST_VALUE_CHARACTERS]}…"


def _clock(time: object) -> str:
    """Time of day to the millisecond: the events of one request lie close together."""
    return str(time).partition("T")[2].rstrip("Z")[:12]
