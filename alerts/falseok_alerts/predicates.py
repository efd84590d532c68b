"""Conditions over facts: `all`, `any`, `not`, or one comparison. Evaluation is total; mistakes are found at load."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from falseok_alerts.lookup import value_at
from falseok_alerts.operators import OPERATORS, problem_with


class Condition(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"not_": "not"}
):
    """Exactly one of `all`, `any`, `not`, or a comparison `fact` + `op` (+ `value`)."""

    all: list["Condition"] | None = None
    any: list["Condition"] | None = None
    not_: "Condition | None" = None
    fact: str | None = None
    op: str | None = None
    value: msgspec.UnsetType | Any = msgspec.UNSET


ALWAYS = Condition(all=[])
"""Holds for any facts."""


def holds(condition: Condition, document: Mapping[str, Any]) -> bool:
    """Whether the condition is true of the facts. Never raises for a condition without `problems_of`."""
    if condition.all is not None:
        return all(holds(part, document) for part in condition.all)
    if condition.any is not None:
        return any(holds(part, document) for part in condition.any)
    if condition.not_ is not None:
        return not holds(condition.not_, document)
    return OPERATORS[condition.op or ""](value_at(document, condition.fact or ""), condition.value)


def problems_of(condition: Condition, known_paths: frozenset[str], path: str) -> Iterator[str]:
    """Every mistake in the condition, each starting with its path: wrong shape, unknown fact, operator or value."""
    forms = (condition.all, condition.any, condition.not_, condition.fact)
    if sum(form is not None for form in forms) != 1:
        yield f"{path}: needs exactly one of all, any, not, fact"
        return
    for name, parts in (("all", condition.all), ("any", condition.any)):
        if parts is not None:
            yield from _problems_of_list(parts, known_paths, f"{path}.{name}")
    if condition.not_ is not None:
        yield from problems_of(condition.not_, known_paths, f"{path}.not")
    if condition.fact is not None:
        yield from _problems_of_comparison(condition, known_paths, path)
    elif condition.op is not None or condition.value is not msgspec.UNSET:
        yield f"{path}: op and value belong beside fact"


def _problems_of_list(parts: list[Condition], known_paths: frozenset[str], path: str) -> Iterator[str]:
    if not parts:
        yield f"{path}: an empty list decides nothing"
    for index, part in enumerate(parts):
        yield from problems_of(part, known_paths, f"{path}[{index}]")


def _problems_of_comparison(condition: Condition, known_paths: frozenset[str], path: str) -> Iterator[str]:
    if condition.fact not in known_paths:
        yield f"{path}.fact: there is no fact {condition.fact!r}"
    if condition.op is None:
        yield f"{path}: fact needs an op"
    elif problem := problem_with(condition.op, condition.value):
        yield f"{path}.value: {condition.op} {problem}"
