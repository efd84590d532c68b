"""Events that went through OpenTelemetry's wire form come back as the same events; whatever else comes is told apart."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from falseok_collector.events import decode
from falseok_collector.sinks.otlp_records import record_of, resource_of
from falseok_lab import recording
from falseok_pipeline.dead_letters import Reason
from falseok_pipeline.sources.otlp_records import lines_of_records

PLACE = "otlp_logs[0]@7"
RESOURCE = resource_of("boot")
RECORDINGS = recording.list_shipped()
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=8)
    | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def message(lines: list[bytes]) -> bytes:
    """The lines as the OTLP sink exports them."""
    return bytes(encode_logs([record_of(line, RESOURCE) for line in lines]).SerializeToString())


def comparable(line: bytes) -> dict[str, Any]:
    """An event without what OTLP has no place for: the host is the resource's, nulls vanish, half a trace context too."""
    envelope = decode(line)
    event = msgspec.structs.asdict(envelope)
    if not (envelope.trace_id and envelope.span_id):
        event |= {"trace_id": "", "span_id": ""}
    own = msgspec.json.decode(bytes(envelope.attrs), type=dict[str, Any])
    return {
        **event,
        "host": "",
        "pid": 0,
        "attrs": {name: value for name, value in own.items() if value is not None},
    }


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_every_recorded_event_comes_back_as_it_was(path: Path) -> None:
    """Field by field, nested attributes included."""
    lines = list(recording.load(path).lines())
    data, letters = lines_of_records(message(lines), PLACE)
    assert () == letters
    assert [comparable(line) for line in lines] == [comparable(line) for line in data.splitlines()]


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), json_values, max_size=5))
def test_any_attributes_come_back(attrs: dict[str, Any]) -> None:
    """Numbers stay the kind they are; nulls within lists and objects stay where they are."""
    line = b'{"v":1,"id":"b-1","ts":1000,"mono":1,"boot":"b","seq":1,"name":"a.b","origin":"hook","attrs":%s}'
    line %= msgspec.json.encode(attrs)
    data, letters = lines_of_records(message([line]), PLACE)
    assert () == letters
    assert comparable(line) == comparable(data.rstrip(b"\n"))


def test_a_name_that_an_old_collector_kept_as_an_attribute_counts() -> None:
    """Records had no field for an event's name before 2025."""
    lines = list(recording.load(RECORDINGS[0]).lines())[:1]
    request = ExportLogsServiceRequest.FromString(message(lines))
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    pair = record.attributes.add()
    pair.key, pair.value.string_value = "event.name", record.event_name
    record.event_name = ""
    data, _ = lines_of_records(request.SerializeToString(), PLACE)
    assert decode(lines[0]).name == decode(data.rstrip(b"\n")).name


def test_other_peoples_logs_are_passed_over() -> None:
    """A topic may carry more than our events."""
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.body.string_value = "GET /health 200"
    assert (b"", ()) == lines_of_records(request.SerializeToString(), PLACE)
    assert (b"", ()) == lines_of_records(b"", PLACE)


@pytest.mark.parametrize("value", [b'{"v":1}\n', b"\xff" * 40, b"\x0a\x05ab", b"\x12\x03abc"])
def test_what_is_no_request_is_a_dead_letter_with_its_bytes(value: bytes) -> None:
    """Newline-delimited JSON in this topic, noise, a request cut short, fields that nobody knows."""
    data, (letter,) = lines_of_records(value, PLACE)
    assert b"" == data
    assert (Reason.NOT_OTLP, PLACE, value) == (letter.reason, letter.source, letter.original)


def test_twenty_thousand_mutilated_messages_raise_nothing() -> None:
    """Each gives lines, nothing, or one dead letter that holds it whole."""
    good = message(list(recording.load(RECORDINGS[0]).lines())[:20])
    dice = random.Random(20261201)
    for _ in range(20_000):
        value = bytearray(good)
        for _ in range(dice.randint(1, 6)):
            value[dice.randrange(len(value))] = dice.randrange(256)
        del value[dice.randint(len(value) // 2, len(value)) :]
        data, letters = lines_of_records(bytes(value), PLACE)
        assert not data or data.endswith(b"\n")
        assert all(letter.original == value for letter in letters)


def test_a_message_nested_beyond_reason_is_a_dead_letter() -> None:
    """The parser gives up at a depth of 100, and so do we."""
    value = b"\x0a\x02hi"
    for _ in range(200):
        inner = b"\x0a" + _length(value) + value
        value = b"\x2a" + _length(inner) + inner
    for tag in (b"\x2a", b"\x12", b"\x12", b"\x0a"):
        value = tag + _length(value) + value
    data, letters = lines_of_records(value, PLACE)
    assert (b"", 1) == (data, len(letters))


def _length(data: bytes) -> bytes:
    number, out = len(data), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
