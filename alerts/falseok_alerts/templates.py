"""Sentences with facts filled in. A placeholder is a dotted fact path in braces and nothing else.

`str.format` alone would let a template reach attributes of objects, so only the parser of the standard library is
used and the values come from the fact lookup.
"""

import string
from collections.abc import Iterator, Mapping
from typing import Any

from falseok_alerts.lookup import is_known, value_at

NOT_KNOWN = "not known"
"""Stands where nobody reported the fact: an honest gap, never an empty space."""

_formatter = string.Formatter()


def fill(template: str, document: Mapping[str, Any]) -> str:
    """The template with every placeholder replaced. Values are plain text: escaping is the renderer's business."""
    return "".join(
        literal + ("" if path is None else _as_text(value_at(document, path)))
        for literal, path, _, _ in _formatter.parse(template)
    )


def problems_of(template: str, known_paths: frozenset[str], path: str) -> Iterator[str]:
    """Every mistake in the template, each starting with `path`: broken braces, unknown facts, format options."""
    try:
        parts = list(_formatter.parse(template))
    except ValueError as error:
        yield f"{path}: {error}"
        return
    for _, name, format_options, conversion in parts:
        if name is None:
            continue
        if name not in known_paths:
            yield f"{path}: there is no fact {name!r}"
        if format_options or conversion:
            yield f"{path}: {{{name}}} may not carry a format or a conversion"


def _as_text(value: Any) -> str:
    if not is_known(value):
        return NOT_KNOWN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    return str(value)
