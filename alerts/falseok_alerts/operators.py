"""The comparisons a cause may use, one total function each: whatever the fact holds, they answer true or false.

A missing fact makes every comparison false; only `present: false` asks for it.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from falseok_alerts.lookup import is_known

Comparison = Callable[[Any, Any], bool]


def equals(fact: Any, value: Any) -> bool:
    """Same type of value and equal; `1` is not `true`."""
    return is_known(fact) and isinstance(fact, bool) == isinstance(value, bool) and bool(fact == value)


def is_in(fact: Any, value: Any) -> bool:
    """The fact equals one of the listed values."""
    return isinstance(value, list) and any(equals(fact, item) for item in value)


def contains(fact: Any, value: Any) -> bool:
    """The fact is a list and one of its items equals the value."""
    return isinstance(fact, list) and any(equals(item, value) for item in fact)


def version_in(fact: Any, value: Any) -> bool:
    """The fact is a version inside the specifier. Development and local builds count by their place in the order."""
    if not isinstance(fact, str):
        return False
    try:
        return SpecifierSet(value).contains(Version(fact), prereleases=True)
    except (InvalidVersion, InvalidSpecifier):
        return False


def matches(fact: Any, value: Any) -> bool:
    """The regular expression is found in the fact, or in any text of it when it is a list."""
    texts = fact if isinstance(fact, list) else [fact]
    return any(isinstance(text, str) and re.search(value, text) is not None for text in texts)


def present(fact: Any, value: Any) -> bool:
    """With `true`: somebody reported the fact. With `false`: nobody did."""
    return is_known(fact) is (value is not False)


def greater_than(fact: Any, value: Any) -> bool:
    """The fact is a number above the value."""
    return _is_number(fact) and bool(fact > value)


def less_than(fact: Any, value: Any) -> bool:
    """The fact is a number below the value."""
    return _is_number(fact) and bool(fact < value)


def _is_number(fact: Any) -> bool:
    return isinstance(fact, int | float) and not isinstance(fact, bool)


OPERATORS: Mapping[str, Comparison] = MappingProxyType(
    {
        "equals": equals,
        "in": is_in,
        "contains": contains,
        "version_in": version_in,
        "matches": matches,
        "present": present,
        "greater_than": greater_than,
        "less_than": less_than,
    }
)
"""Every operator by the name it has in the YAML files."""


def problem_with(operator: str, value: Any) -> str:  # noqa: PLR0911 - one line an operator reads best flat
    """Why `value` cannot stand beside `operator`, or an empty text. Called at load, so that no comparison can raise."""
    if operator not in OPERATORS:
        return f"unknown operator {operator!r}; known: {', '.join(sorted(OPERATORS))}"
    if operator == "in":
        return "" if isinstance(value, list) and value else "needs a list that is not empty"
    if operator == "version_in":
        return _specifier_problem(value)
    if operator == "matches":
        return _pattern_problem(value)
    if operator == "present":
        return "" if isinstance(value, bool) else "needs true or false"
    if operator in {"greater_than", "less_than"}:
        return "" if _is_number(value) else "needs a number"
    return (
        ""
        if isinstance(value, bool | int | float | str) and value != ""
        else "needs a text, number, true or false"
    )


def _specifier_problem(value: Any) -> str:
    try:
        return "" if isinstance(value, str) and str(SpecifierSet(value)) else "needs a version specifier"
    except InvalidSpecifier as error:
        return str(error)


def _pattern_problem(value: Any) -> str:
    if not isinstance(value, str) or not value:
        return "needs a regular expression"
    try:
        re.compile(value)
    except re.error as error:
        return f"not a regular expression: {error}"
    return ""
