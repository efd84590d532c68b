"""YAML in, plain values out, duplicate keys refused. Knows nothing of causes.

PyYAML and msgspec both let the last of two equal keys win, so a copied line could silently weaken a cause.
"""

from typing import Any

import yaml


class DuplicateKeyError(yaml.YAMLError):
    """A mapping names the same key twice. The message carries key, line and column, all counted from 1."""


class _StrictLoader(yaml.SafeLoader):
    """`SafeLoader` that refuses a mapping with two equal keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the base class, but raises `DuplicateKeyError` instead of letting the last key win."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                mark = key_node.start_mark
                raise DuplicateKeyError(
                    f"duplicate key {key!r} at line {mark.line + 1}, column {mark.column + 1}"
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """The one document in `text`.

    Raises:
        yaml.YAMLError: not YAML, more than one document, or a duplicate key (`DuplicateKeyError`).
    """
    return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader with one more refusal
