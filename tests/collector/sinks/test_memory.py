"""The sink that keeps events in the process."""

from falseok_collector.sinks.memory import MemorySink


def test_lines_are_kept_in_order() -> None:
    """What was written can be read."""
    sink = MemorySink()
    sink.write([b"a", b"b"])
    sink.write([b"c"])
    assert ([b"a", b"b", b"c"], 0) == (sink.lines, sink.counts.spilled)


def test_the_oldest_make_room_and_are_counted() -> None:
    """Memory is bounded."""
    sink = MemorySink(capacity=2)
    sink.write([b"a", b"b", b"c"])
    sink.write([b"d"])
    assert ([b"c", b"d"], 2, 4) == (sink.lines, sink.counts.spilled, sink.counts.sent)


def test_lines_stay_readable_after_close() -> None:
    """Closing only marks the end."""
    sink = MemorySink()
    sink.write([b"a"])
    sink.close()
    assert ([b"a"], True) == (sink.lines, sink.closed)
