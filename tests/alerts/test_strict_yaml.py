"""Reading YAML without losing a line of it."""

import pytest
import yaml

from falseok_alerts import strict_yaml


def test_plain_document_loads() -> None:
    """Mappings, lists and scalars come back as plain values."""
    assert {"a": [1, {"b": "x"}]} == strict_yaml.load("a: [1, {b: x}]")


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [("a: 1\nb: 2\na: 3\n", "a", 3), ("outer:\n  x: 1\n  x: 1\n", "x", 3)],
    ids=["at the top", "inside, even with an equal value"],
)
def test_duplicate_key_is_refused_with_its_line(text: str, key: str, line: int) -> None:
    """The last of two equal keys must not win in silence."""
    with pytest.raises(
        strict_yaml.DuplicateKeyError, match=rf"duplicate key '{key}' at line {line}, column \d+"
    ):
        strict_yaml.load(text)


def test_python_objects_are_not_built() -> None:
    """A tag that would run code is an error."""
    with pytest.raises(yaml.YAMLError):
        strict_yaml.load("!!python/object/apply:os.getcwd []")
