"""Every event's attributes survive the way from the hook to a reader."""

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falseok_collector.attributes import ATTRIBUTES, AnsweredChoice, Attributes, HookState, KvGroup, SinkState
from falseok_collector.events import Envelope, Origin, attributes_of, decode, encode

SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=20),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    NoneType: st.none(),
    Any: st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20),
}


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values(arguments[0])
    if origin in {Union, UnionType}:
        return st.one_of([values(part) for part in arguments])
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(st.text(max_size=20), values(arguments[1]), max_size=3)
    return (
        structs(annotation)
        if annotation in {KvGroup, HookState, SinkState, AnsweredChoice}
        else SIMPLE[annotation]
    )


def structs(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Structs with every field filled."""
    hints = get_type_hints(struct, include_extras=True)
    return st.builds(struct, **{name: values(hints[name]) for name in struct.__struct_fields__})


def transported(attributes: Attributes) -> tuple[str, Any]:
    """Name and attributes as a reader finds them."""
    envelope = Envelope(
        v=1, id="b-1", ts=1, mono=1, boot="b", seq=1, name=attributes.event_name, origin=Origin.HOOK
    )
    event = decode(encode(envelope, attributes))
    return event.name, attributes_of(event)


@pytest.mark.parametrize("name", ATTRIBUTES)
@settings(max_examples=30)
@given(data=st.data())
def test_attributes_survive_the_round_trip(name: str, data: st.DataObject) -> None:
    """Every field, filled with anything its type allows."""
    attributes = data.draw(structs(ATTRIBUTES[name]))
    assert (name, attributes) == transported(attributes)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_at_their_defaults_take_no_space(name: str) -> None:
    """What is not said is not sent, and reads as the default."""
    attributes = ATTRIBUTES[name]()
    assert b"{}" == msgspec.json.encode(attributes)
    assert (name, attributes) == transported(attributes)
