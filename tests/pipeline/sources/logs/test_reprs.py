"""Texts that Python printed are read without running anything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_pipeline.sources.logs.reprs import NotReadableError, fields, literal_dictionary

literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=st.dictionaries(st.text(), literals, max_size=6))
def test_what_was_printed_is_read_back(value: dict[str, Any]) -> None:
    """Any dictionary of literals."""
    assert value == literal_dictionary(repr(value))


@given(value=st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), literals, max_size=5))
def test_fields_of_any_values(value: dict[str, Any]) -> None:
    """As a dataclass prints its fields."""
    text = ", ".join(f"{name}={inner!r}" for name, inner in value.items())
    assert value == fields(text)
    assert {"outer": value} == literal_dictionary(f"{{'outer': Config({text})}}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=torch.bfloat16, b=auto", {"a": "torch.bfloat16", "b": "auto"}),
        ("a={'m': <Mode.NONE: 0>}, b=2", {"a": {"m": "<Mode.NONE: 0>"}, "b": 2}),
        ("a=K(b=C(d=['x'])), e=None", {"a": {"b": {"d": ["x"]}}, "e": None}),
        ("a=PosixPath('/x, y'), b=1", {"a": "PosixPath('/x, y')", "b": 1}),
        ("a={1: 'x', (2, 3): 'y'}, b={'p', 'q'}", {"a": {1: "x", "[2, 3]": "y"}, "b": ["p", "q"]}),
        ("", {}),
    ],
)
def test_what_is_no_literal_stays_as_text(text: str, value: dict[str, Any]) -> None:
    """Enumerations, paths, bare words."""
    assert value == fields(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'a': ",
        "{'a': 1",
        "[1]",
        "{1: 2}",
        "{'a': (",
        "{'a'",
        "{" * 100_000,
        "{'a': '" + "x" * 300_000 + "'}",
    ],
)
def test_what_cannot_be_read_is_an_error_of_ours(text: str) -> None:
    """Cut, nested without end, too long, or something else."""
    with pytest.raises(NotReadableError):
        literal_dictionary(text)


@given(text=st.text(alphabet="{}[]()<>'\",:= a1\\\n", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No other exception, and no endless loop."""
    for read in (literal_dictionary, fields):
        try:
            read(text)
        except NotReadableError:
            continue


def test_nothing_is_run() -> None:
    """A call is a name with fields, whatever it is called."""
    assert {"a": "__import__('os')", "b": 1} == fields("a=__import__('os'), b=1")
    with pytest.raises(NotReadableError):
        fields("a=__import__('os').system('x')")
