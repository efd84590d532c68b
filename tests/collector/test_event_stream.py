"""Server-sent events out of bytes that arrive in any pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.event_stream import MAX_EVENT_BYTES, EventStream


def events(*pieces: bytes) -> list[bytes]:
    """The data of every event of a stream that arrived in these pieces."""
    stream = EventStream()
    found = [payload for piece in pieces for payload in stream.feed(piece)]
    return found + stream.finish()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"event: x\ndata: a\nid: 1\n\n", [b"a"]),
        (b"data: [1,\ndata: 2]\n\n", [b"[1,\n2]"]),
        (b": ping\n\ndata: a\n\n", [b"a"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"data\n\n\n\n", []),
        (b"", []),
    ],
)
def test_events(stream: bytes, expected: list[bytes]) -> None:
    """As the standard has it, whole and byte by byte."""
    assert expected == events(stream)
    assert expected == events(*(stream[at : at + 1] for at in range(len(stream))))


PIECES = (b"data: ", b"data:", b"a", b"\xc3\xa9", b"\n", b"\n\n", b"\r\n", b": c\n", b"event: x\n", b"[DONE]")


@given(st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join), st.data())
def test_the_cuts_do_not_matter(stream: bytes, data: st.DataObject) -> None:
    """Whatever the bytes are."""
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    edges = [0, *cuts, len(stream)]
    assert events(stream) == events(*(stream[begin:end] for begin, end in pairwise(edges)))


@pytest.mark.parametrize("size", [65_536, 3 * MAX_EVENT_BYTES], ids=["in pieces", "at once"])
def test_an_event_that_is_too_long_is_counted_and_passed_over(size: int) -> None:
    """Memory stays bounded; the next event counts again."""
    stream = EventStream()
    long = b"data: " + b"x" * (2 * MAX_EVENT_BYTES) + b"\n\n"
    found = []
    for at in range(0, len(long), size):
        found += stream.feed(long[at : at + size])
        assert len(stream._rest) <= MAX_EVENT_BYTES
    found += stream.feed(b"data: a\n\n")
    assert ([b"a"], 1) == (found, stream.events_too_long)


def test_many_data_lines_of_one_event_are_bounded_too() -> None:
    """Each of them is short; together they are too long."""
    stream = EventStream()
    for _ in range(40):
        stream.feed(b"data: " + b"x" * 65_536 + b"\n")
        assert sum(map(len, stream._data)) <= MAX_EVENT_BYTES
    assert [] == stream.feed(b"\n")
    assert 1 == stream.events_too_long


def test_comments_are_counted() -> None:
    """Servers send them to keep connections alive (`--sse-keep-alive-interval`)."""
    stream = EventStream()
    stream.feed(b": keep-alive\n\n:\n\ndata: a\n\n")
    assert 2 == stream.comments
