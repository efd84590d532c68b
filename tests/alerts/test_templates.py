"""Sentences with facts filled in."""

import pytest

from falseok_alerts import templates

FACTS = {"decode": {"version": "0.27.0", "eager": True, "types": ["a", "b"], "group": ""}, "affected": 32}
PATHS = frozenset({"decode.version", "affected"})


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("vLLM {decode.version} hit {affected}", "vLLM 0.27.0 hit 32"),
        ("{decode.types} eager={decode.eager}", "a, b eager=true"),
        ("group {decode.group}, host {decode.host}", "group not known, host not known"),
        ("literal {{braces}}", "literal {braces}"),
    ],
)
def test_filling(template: str, expected: str) -> None:
    """Values stand where their path stood; a gap says so."""
    assert expected == templates.fill(template, FACTS)


def test_braces_in_a_value_stay_text() -> None:
    """What an engine reported is never read as a template."""
    assert "{affected}" == templates.fill(
        "{decode.version}", {"decode": {"version": "{affected}"}, "affected": 1}
    )


def test_attributes_of_values_are_out_of_reach() -> None:
    """Unlike `str.format`, a template cannot walk into Python objects."""
    assert templates.NOT_KNOWN == templates.fill("{affected.__class__}", FACTS)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{verdict}", "x: there is no fact 'verdict'"),
        ("{affected!r}", "x: {affected} may not carry a format or a conversion"),
        ("{affected:>100000000}", "x: {affected} may not carry a format or a conversion"),
        ("{affected", "x: expected '}' before end of string"),
    ],
)
def test_mistake_is_named(template: str, problem: str) -> None:
    """A placeholder that leads nowhere, or asks for formatting, is found at load."""
    assert [problem] == list(templates.problems_of(template, PATHS, "x"))
