"""The comparisons causes are made of."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_alerts import operators

HOSTILE_FACTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)

VALUES: dict[str, Any] = {
    "equals": "x",
    "in": ["x", 1],
    "contains": "x",
    "version_in": ">=0.26,<0.30",
    "matches": "^x+$",
    "present": True,
    "greater_than": 1,
    "less_than": 1.5,
}


@pytest.mark.parametrize(
    ("operator", "fact", "value", "expected"),
    [
        ("equals", "fail", "fail", True),
        ("equals", True, 1, False),
        ("equals", 0, False, False),
        ("equals", None, False, False),
        ("equals", 0, 0, True),
        ("in", "corrupt", ["corrupt", "recovered"], True),
        ("in", "healthy", ["corrupt"], False),
        ("contains", ["hash_mismatch", "unreachable"], "hash_mismatch", True),
        ("contains", "hash_mismatch", "hash_mismatch", False),
        ("version_in", "0.27.0", ">=0.26,<0.30", True),
        ("version_in", "0.30.0", ">=0.26,<0.30", False),
        ("version_in", "0.26.1rc1.dev657", ">=0.26,<0.30", True),
        ("version_in", "0.29.0+cpu", ">=0.26,<0.30", True),
        ("version_in", "nightly", ">=0.26,<0.30", False),
        ("version_in", None, ">=0.26", False),
        ("matches", "torch.bfloat16", "^torch", True),
        ("matches", ["a", "KV block_len 1 must equal 2"], "block_len .* must equal", True),
        ("matches", 7, "7", False),
        ("present", "", True, False),
        ("present", [], True, False),
        ("present", False, True, True),
        ("present", 0, True, True),
        ("present", None, False, True),
        ("present", "x", False, False),
        ("greater_than", 2, 1, True),
        ("greater_than", 1, 1, False),
        ("greater_than", True, 0, False),
        ("greater_than", "2", 1, False),
        ("less_than", 0.5, 1, True),
        ("less_than", 1, 1, False),
    ],
)
def test_comparison(operator: str, fact: Any, value: Any, expected: bool) -> None:
    """Each operator on values it meets, on its edge, and on a fact of the wrong kind."""
    assert expected is operators.OPERATORS[operator](fact, value)


@given(fact=HOSTILE_FACTS, operator=st.sampled_from(sorted(operators.OPERATORS)))
def test_no_fact_makes_an_operator_raise(fact: Any, operator: str) -> None:
    """Operators are total: whatever an engine reported, the answer is true or false."""
    assert operators.OPERATORS[operator](fact, VALUES[operator]) in (True, False)


def test_every_operator_has_a_value_in_this_file() -> None:
    """A new operator cannot be added without being fuzzed."""
    assert set(VALUES) == set(operators.OPERATORS)


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        ("resembles", "x"),
        ("equals", None),
        ("equals", ""),
        ("equals", ["x"]),
        ("in", "x"),
        ("in", []),
        ("contains", {}),
        ("version_in", "newer"),
        ("version_in", ""),
        ("version_in", 0.27),
        ("matches", "("),
        ("matches", ""),
        ("present", "yes"),
        ("greater_than", "1"),
        ("less_than", True),
    ],
)
def test_unusable_value_is_named_at_load(operator: str, value: Any) -> None:
    """A value an operator could trip over is a problem of the file, not of the night."""
    assert operators.problem_with(operator, value)


@pytest.mark.parametrize("operator", sorted(operators.OPERATORS))
def test_usable_value_is_no_problem(operator: str) -> None:
    """The values used above are accepted."""
    assert operators.problem_with(operator, VALUES[operator]) == ""
