"""Dotted paths into facts: which exist, and what stands there. Never raises on a missing fact."""

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_SEPARATOR = "."


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of nested mappings, or `None` when any part of it is missing."""
    value: Any = document
    for part in path.split(_SEPARATOR):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def is_known(value: Any) -> bool:
    """Whether a fact is there at all: `None`, an empty text and an empty list mean that nobody reported it."""
    return value is not None and value not in ("", [])


def paths_of(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Every dotted path a struct offers, inner structs and their own fields included; lists end a path."""
    for field in msgspec.structs.fields(struct):
        path = prefix + field.name
        yield path
        inner = _struct_in(field.type)
        if inner is not None:
            yield from paths_of(inner, path + _SEPARATOR)


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        found = (_struct_in(part) for part in typing.get_args(annotation))
        return next((struct for struct in found if struct is not None), None)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return None
