"""Conditions over facts."""

from typing import Any

import msgspec
import pytest

from falseok_alerts.predicates import ALWAYS, Condition, holds, problems_of

FACTS = {"verdict": "corrupt", "decode": {"version": "0.27.0"}, "affected": 3}
PATHS = frozenset({"verdict", "decode", "decode.version", "affected"})


def condition(document: dict[str, Any]) -> Condition:
    """A condition as the YAML loader makes it."""
    return msgspec.convert(document, Condition)


IS_CORRUPT = {"fact": "verdict", "op": "equals", "value": "corrupt"}
IS_HEALTHY = {"fact": "verdict", "op": "equals", "value": "healthy"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (IS_CORRUPT, True),
        (IS_HEALTHY, False),
        ({"all": [IS_CORRUPT, IS_HEALTHY]}, False),
        ({"any": [IS_CORRUPT, IS_HEALTHY]}, True),
        ({"not": IS_HEALTHY}, True),
        ({"all": [IS_CORRUPT, {"not": {"any": [IS_HEALTHY]}}]}, True),
        ({"fact": "decode.version", "op": "version_in", "value": "<0.30"}, True),
        ({"fact": "decode.version.major", "op": "equals", "value": 0}, False),
        ({"fact": "prefill.version", "op": "present", "value": False}, True),
    ],
)
def test_condition_on_facts(document: dict[str, Any], expected: bool) -> None:
    """All, any, not and comparisons nest; a path that leads nowhere is a missing fact."""
    assert expected is holds(condition(document), FACTS)


def test_always_holds_for_no_facts_at_all() -> None:
    """The default condition of remedies asks for nothing."""
    assert holds(ALWAYS, {})


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "when: needs exactly one of all, any, not, fact"),
        ({"all": [IS_CORRUPT], "any": [IS_CORRUPT]}, "when: needs exactly one of all, any, not, fact"),
        ({"all": []}, "when.all: an empty list decides nothing"),
        ({"any": [IS_CORRUPT, {"not": {}}]}, "when.any[1].not: needs exactly one of all, any, not, fact"),
        ({"fact": "verdikt", "op": "present", "value": True}, "when.fact: there is no fact 'verdikt'"),
        ({"fact": "verdict"}, "when: fact needs an op"),
        ({"fact": "verdict", "op": "in", "value": "x"}, "when.value: in needs a list that is not empty"),
        ({"not": IS_CORRUPT, "op": "equals"}, "when: op and value belong beside fact"),
    ],
)
def test_mistake_is_named_with_its_path(document: dict[str, Any], problem: str) -> None:
    """Every kind of mistake in a condition is found before it is ever evaluated."""
    assert [problem] == list(problems_of(condition(document), PATHS, "when"))


def test_all_mistakes_of_a_condition_are_named() -> None:
    """One reading of the messages is enough to repair the file."""
    broken = condition(
        {"all": [{"fact": "a", "op": "b", "value": 1}, {"fact": "verdict", "op": "matches", "value": "("}]}
    )
    paths = [problem.partition(": ")[0] for problem in problems_of(broken, PATHS, "when")]
    assert ["when.all[0].fact", "when.all[0].value", "when.all[1].value"] == paths


def test_unknown_field_is_refused() -> None:
    """A misspelt `vlaue` must not become a comparison with nothing."""
    with pytest.raises(msgspec.ValidationError, match="vlaue"):
        condition({"fact": "verdict", "op": "equals", "vlaue": "corrupt"})
