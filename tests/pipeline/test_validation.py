"""Good lines go on as they came; every bad one becomes a dead letter of its own with its reason and place."""

from collections.abc import Callable

import pytest
from tests.pipeline.stories import START_MICROS, Fleet, healthy

from falseok_collector.events import MAX_LINE_BYTES
from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.sources import Batch, Slice
from falseok_pipeline.validation import validate

GOOD = healthy(Fleet(), 1)
SOURCE = "/spool/p-00000001.ndjson"


def line(**changes: str) -> bytes:
    """A good event with top-level fields replaced by JSON texts, or left out where the text is empty."""
    fields = {
        "v": "1",
        "id": '"b-7"',
        "ts": "5",
        "mono": "5",
        "boot": '"b"',
        "seq": "7",
        "name": '"kv.handshake"',
        "origin": '"hook"',
        "attrs": '{"outcome":"ok"}',
    } | changes
    return ("{" + ",".join(f'"{name}":{text}' for name, text in fields.items() if text) + "}").encode()


def batch(*lines: bytes, offset: int = 0) -> Batch:
    """One slice of lines."""
    return Batch((Slice(SOURCE, offset, b"".join(item + b"\n" for item in lines)),))


BAD: dict[str, tuple[Reason, bytes]] = {
    "not JSON": (Reason.NOT_JSON, b"hello"),
    "cut off": (Reason.NOT_JSON, line()[:-3]),
    "two events on one line": (Reason.NOT_JSON, line() + b" " + line()),
    "a number out of JSON": (Reason.NOT_JSON, line(attrs='{"a":NaN}')),
    "a lone surrogate": (Reason.NOT_JSON, line(attrs='{"a":"\\ud800"}')),
    "not UTF-8": (Reason.NOT_UTF8, line(attrs='{"a":"?"}').replace(b"?", b"\xff")),
    "not UTF-8 in the envelope": (Reason.NOT_UTF8, line(host='"?"').replace(b"?", b"\xc3")),
    "a NUL byte": (Reason.NUL_BYTE, line(attrs='{"a":"?"}').replace(b"?", b"\0")),
    "not an object": (Reason.SCHEMA, b"[1, 2]"),
    "no fields": (Reason.SCHEMA, b"{}"),
    "a missing field": (Reason.SCHEMA, line(ts="")),
    "a null": (Reason.SCHEMA, line(host="null")),
    "a text for a number": (Reason.SCHEMA, line(ts='"5"')),
    "a number beyond 64 bits": (Reason.SCHEMA, line(ts=str(2**63))),
    "a negative number": (Reason.SCHEMA, line(mono="-1")),
    "a number with a fraction": (Reason.SCHEMA, line(seq="7.5")),
    "a truth value for a version": (Reason.SCHEMA, line(v="true")),
    "an unknown origin": (Reason.SCHEMA, line(origin='"rumour"')),
    "a name that is no event name": (Reason.SCHEMA, line(name='"Handshake"')),
    "a long id": (Reason.SCHEMA, line(host=f'"{"x" * 257}"')),
    "a trace id that is none": (Reason.SCHEMA, line(trace_id='"xyz"')),
    "an unknown field and a bad one": (Reason.SCHEMA, line(flavour='"x"', ts='"5"')),
    "a later version": (Reason.UNKNOWN_VERSION, line(v="2")),
    "a later version with later fields": (Reason.UNKNOWN_VERSION, line(v="3", flavour='"x"', origin='"new"')),
    "attributes in a list": (Reason.ATTRS_NOT_OBJECT, line(attrs="[1]")),
    "attributes that are null": (Reason.ATTRS_NOT_OBJECT, line(attrs="null")),
    "an id of another event": (Reason.ID_MISMATCH, line(id='"b-8"')),
    "too long": (Reason.TOO_LONG, line(attrs=f'{{"a":"{"x" * MAX_LINE_BYTES}"}}')),
    "too deep": (Reason.TOO_DEEP, line(attrs='{"a":' + "[" * 20_000 + "]" * 20_000 + "}")),
}


@pytest.mark.parametrize(("reason", "bad"), BAD.values(), ids=BAD.keys())
def test_a_bad_line_becomes_a_dead_letter_and_its_neighbours_are_kept(reason: Reason, bad: bytes) -> None:
    """Its reason, its place and its bytes are told; the lines around it go on unchanged."""
    checked = validate(batch(GOOD[0], bad, GOOD[1], offset=100))
    [letter] = checked.dead_letters
    assert (reason, SOURCE, 101 + len(GOOD[0]), bad) == (
        letter.reason,
        letter.source,
        letter.byte_offset,
        letter.original,
    )
    assert letter.message
    assert GOOD[0] + b"\n" + GOOD[1] + b"\n" == checked.payload
    assert 2 == checked.events


def test_every_reason_of_a_line_has_its_case() -> None:
    """A reason that nothing gives is no reason. The others come from source and store."""
    elsewhere = {
        Reason.TORN_LINE,
        Reason.UNREADABLE,
        Reason.REFUSED_BY_STORE,
        Reason.NOT_UNDERSTOOD,
        Reason.NOT_OTLP,
    }
    assert set(Reason) - elsewhere == {reason for reason, _ in BAD.values()}


def test_a_good_batch_goes_on_as_it_came() -> None:
    """Not a byte of it is changed, and it is counted."""
    whole = batch(*GOOD)
    checked = validate(whole)
    assert whole.slices == checked.slices
    assert whole.slices[0].data == checked.payload
    assert (len(GOOD), ()) == (checked.events, checked.dead_letters)
    assert START_MICROS + 13_000 == checked.last_event_micros


def test_only_the_slice_with_the_bad_line_is_looked_through() -> None:
    """The other slices of the batch stay whole."""
    bad = Slice("/spool/q-00000001.ndjson", 0, GOOD[0] + b"\nnonsense\n")
    good = Slice(SOURCE, 0, GOOD[1] + b"\n")
    checked = validate(Batch((bad, good)))
    assert (good,) == checked.slices
    assert [GOOD[0]] == [item.data for item in checked.lines]
    assert [GOOD[1], GOOD[0]] == [item.data for item in checked.located()]


def test_blank_lines_are_counted_not_buried() -> None:
    """An empty line says nothing, so nothing is lost with it."""
    checked = validate(batch(b"", GOOD[0], b" \t\r"))
    assert (2, 1, ()) == (checked.blank_lines, checked.events, checked.dead_letters)


def test_an_event_name_of_a_later_release_is_kept() -> None:
    """What this release does not know is stored for the one that does."""
    later = line(name='"kv.something_new.end"')
    assert later + b"\n" == validate(batch(later)).payload


def test_a_line_without_an_end_is_judged_by_what_it_says() -> None:
    """A source hands out the start of an overlong line without its end; that is a dead letter, not an event."""
    start = line()[:20]
    checked = validate(Batch((Slice(SOURCE, 0, GOOD[0] + b"\n" + start),)))
    assert [(Reason.NOT_JSON, start)] == [(letter.reason, letter.original) for letter in checked.dead_letters]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (line(flavour='"x"'), '{"outcome":"ok","flavour":"x"}'),
        (line(flavour='{"deep":[1e400,1.50]}', attrs=""), '{"flavour":{"deep":[1e400,1.50]}}'),
        (line(outcome="3"), '{"outcome":"ok","envelope_outcome":3}'),
    ],
    ids=["beside the others", "without attributes, byte for byte", "under a free name when its own is taken"],
)
def test_an_unknown_field_moves_into_the_attributes(given: bytes, kept: str) -> None:
    """The envelope is closed, and nothing that somebody sent is dropped."""
    checked = validate(batch(given))
    assert line(attrs=kept) == checked.lines[0].data
    assert () == checked.dead_letters


def test_what_is_called_good_is_taken_by_the_store(store: EmbeddedStore) -> None:
    """Validation and store agree: moved fields and unknown names arrive, with their values."""
    checked = validate(batch(line(flavour='"x"', name='"kv.later"'), *GOOD))
    store.insert_events(checked.payload)
    rows = store.query("SELECT attrs.flavour.:String AS flavour FROM events WHERE name = 'kv.later'")
    assert [{"flavour": "x"}] == rows
    assert [{"n": 1 + len(GOOD)}] == store.query("SELECT count() AS n FROM events FINAL")


@pytest.mark.parametrize(
    "change",
    [lambda letter: (letter.byte_offset + 1, letter.original), lambda letter: (letter.byte_offset, b"other")],
    ids=["place", "content"],
)
def test_dead_letters_are_told_apart_by_place_and_content(
    change: Callable[[DeadLetter], tuple[int, bytes]],
) -> None:
    """The same refusal is the same dead letter; another place or other bytes make another one."""
    letter = DeadLetter(Reason.SCHEMA, "why", SOURCE, 5, b"bytes")
    offset, original = change(letter)
    assert letter.id == DeadLetter(Reason.SCHEMA, "said otherwise", SOURCE, 5, b"bytes").id
    assert letter.id != DeadLetter(Reason.SCHEMA, "why", SOURCE, offset, original).id


@pytest.mark.parametrize("blank", [b"", b" ", b"\t\r"])
def test_two_events_in_a_line_are_not_made_up_for_by_a_blank_line(blank: bytes) -> None:
    """As many events as lines do not make each line an event."""
    checked = validate(batch(line(), line() + line(), blank))
    assert (1, 1) == (checked.events, checked.blank_lines)
    assert [Reason.NOT_JSON] == [letter.reason for letter in checked.dead_letters]
