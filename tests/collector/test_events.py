"""The envelope: strict for whoever reads it, and the same after a round trip."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.attributes import SchedPreempt
from falseok_collector.events import Envelope, Origin, attributes_of, decode, encode

MINIMAL: dict[str, Any] = {
    "v": 1,
    "id": "b-1",
    "ts": 1,
    "mono": 1,
    "boot": "b",
    "seq": 1,
    "name": "sched.preempt",
    "origin": "hook",
}


def line(**changes: Any) -> bytes:
    """A valid event with some fields changed; None takes a field away."""
    fields = {name: value for name, value in {**MINIMAL, **changes}.items() if value is not None}
    return msgspec.json.encode(fields)


def test_the_smallest_event_needs_eight_fields() -> None:
    """Everything else has a default, and the attributes may be absent."""
    event = decode(line())
    assert ("", -1, 0, b"{}") == (event.engine_id, event.rank, event.pid, bytes(event.attrs))
    assert SchedPreempt() == attributes_of(event)


@pytest.mark.parametrize("field", MINIMAL)
def test_a_required_field_must_be_there(field: str) -> None:
    """An event that lacks one is nobody's."""
    with pytest.raises(msgspec.ValidationError, match=f"missing required field `{field}`"):
        decode(line(**{field: None}))


def test_an_unknown_field_is_refused() -> None:
    """The slow path of the pipeline decides what becomes of it."""
    with pytest.raises(msgspec.ValidationError, match="unknown field `mood`"):
        decode(line(mood="good"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", "1"),
        ("v", 1.5),
        ("id", 1),
        ("ts", "1"),
        ("ts", 1.5),
        ("seq", True),
        ("name", 1),
        ("origin", 1),
        ("rank", "0"),
        ("pid", []),
        ("engine_id", {}),
        ("host", False),
        ("request_id", 5),
        ("trace_id", 5),
    ],
)
def test_a_field_of_another_type_is_refused(field: str, value: Any) -> None:
    """Nothing is bent into shape: the store would bend it silently."""
    with pytest.raises(msgspec.ValidationError, match=rf"at `\$.{field}`"):
        decode(line(**{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", 0),
        ("v", 2),
        ("id", "b"),
        ("id", "x" * 257),
        ("ts", -1),
        ("ts", 2**63),
        ("mono", 2**63),
        ("seq", 2**63),
        ("boot", ""),
        ("boot", "b" * 129),
        ("name", "preempt"),
        ("name", "Sched.preempt"),
        ("name", "sched.preempt; DROP TABLE events"),
        ("name", "a." + "b" * 64),
        ("origin", "rumour"),
        ("rank", -2),
        ("rank", 2**31),
        ("pid", -1),
        ("pid", 2**31),
        ("engine_id", "e" * 257),
        ("group", "g" * 257),
        ("host", "h" * 257),
        ("request_id", "r" * 1025),
        ("external_id", "r" * 1025),
        ("transfer_id", "r" * 1025),
        ("trace_id", "0" * 31),
        ("trace_id", "0AF7651916CD43DD8448EB211C80319C"),
        ("trace_id", "xyz"),
        ("span_id", "0" * 32),
    ],
)
def test_a_value_out_of_range_is_refused(field: str, value: Any) -> None:
    """Version 2 included: a reader does not guess what it means."""
    with pytest.raises(msgspec.ValidationError, match=rf"at `\$.{field}`"):
        decode(line(**{field: value}))


@pytest.mark.parametrize("attrs", [[], 1, "x", True], ids=repr)
def test_attributes_that_are_no_object_are_refused(attrs: Any) -> None:
    """They are left raw, but they are an object."""
    with pytest.raises(msgspec.ValidationError, match=r"at `\$.attrs`"):
        decode(line(attrs=attrs))


@pytest.mark.parametrize("data", [b"", b"{", b"nonsense", b"[1]", b"null", line()[:-1], line() + b"}"])
def test_a_line_that_is_no_object_is_refused(data: bytes) -> None:
    """A torn line is not an event."""
    with pytest.raises(msgspec.DecodeError):
        decode(data)


def test_attributes_of_a_known_name_are_checked_when_read() -> None:
    """The envelope leaves them alone."""
    event = decode(line(attrs={"output_tokens": "many"}))
    with pytest.raises(msgspec.ValidationError, match=r"\$.output_tokens"):
        attributes_of(event)


def test_attributes_of_a_later_release_are_read_without_their_new_fields() -> None:
    """Additions break no reader."""
    event = decode(line(attrs={"output_tokens": 3, "mood": "good"}))
    assert SchedPreempt(output_tokens=3) == attributes_of(event)


def test_an_event_of_a_later_release_keeps_its_attributes_as_they_are() -> None:
    """A name this release does not know is no error."""
    event = decode(line(name="sched.nap", attrs={"seconds": 1.5, "why": [None]}))
    assert {"seconds": 1.5, "why": [None]} == attributes_of(event)


IDS = st.text(min_size=1, max_size=100)
ENVELOPES = st.builds(
    Envelope,
    v=st.just(1),
    id=st.text(min_size=3, max_size=256),
    ts=st.integers(0, 2**63 - 1),
    mono=st.integers(0, 2**63 - 1),
    boot=IDS,
    seq=st.integers(0, 2**63 - 1),
    name=st.just("sched.preempt"),
    origin=st.sampled_from(Origin),
    engine_id=st.text(max_size=256),
    group=st.text(max_size=256),
    rank=st.integers(-1, 2**31 - 1),
    host=IDS,
    pid=st.integers(0, 2**31 - 1),
    request_id=st.text(max_size=1024),
    external_id=IDS,
    transfer_id=IDS,
    trace_id=st.sampled_from(["", "0af7651916cd43dd8448eb211c80319c"]),
    span_id=st.sampled_from(["", "b7ad6b7169203331"]),
)


@given(ENVELOPES, st.integers(0, 2**40))
def test_what_is_written_is_what_is_read(envelope: Envelope, output_tokens: int) -> None:
    """Any text survives, and an event is one line."""
    data = encode(envelope, SchedPreempt(output_tokens=output_tokens))
    assert b"\n" not in data
    assert envelope == decode(data)
    assert SchedPreempt(output_tokens=output_tokens) == attributes_of(decode(data))


@given(st.binary() | st.recursive(st.none() | st.text() | st.floats(), st.lists).map(msgspec.json.encode))
def test_hostile_lines_are_refused_in_one_of_the_documented_ways(data: bytes) -> None:
    """Nothing else leaves the reader."""
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        decode(data)


def test_deep_nesting_is_refused_in_a_documented_way() -> None:
    """Not by ending the process."""
    with pytest.raises(RecursionError):
        decode(line()[:-1] + b',"attrs":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}")
