"""How lines become messages: keys, sizes, copies of configurations, and what is repeated after a failure."""

import msgspec

from falseok_collector.sinks.kafka_messages import (
    MESSAGE_BYTES,
    Message,
    halves,
    messages_of,
    unsent_lines,
)


def line(name: str = "sched.preempt", engine_id: str = "e", boot: str = "b", filler: str = "") -> bytes:
    """An event as it travels."""
    return msgspec.json.encode({"engine_id": engine_id, "boot": boot, "name": name, "attrs": {"x": filler}})


def made(*lines: bytes) -> list[Message]:
    """The messages of some lines."""
    return list(messages_of(lines, "events", "engines"))


def test_events_of_one_engine_are_one_message() -> None:
    """One event a line, the last one ended, too."""
    lines = [line(filler=str(number)) for number in range(100)]
    (message,) = made(*lines)
    assert ("events", b"e", lines) == (message.topic, message.key, message.lines)
    assert b"".join(each + b"\n" for each in lines) == message.value


def test_another_engine_is_another_message_and_the_order_stays() -> None:
    """Keys never mix; an event of no engine is keyed by its process."""
    lines = [line(engine_id=""), line(), line(), line(engine_id="f"), line()]
    messages = made(*lines)
    assert [b"b", b"e", b"f", b"e"] == [message.key for message in messages]
    assert lines == [each for message in messages for each in message.lines]


def test_a_message_stays_below_its_bound_unless_one_event_is_larger() -> None:
    """Brokers refuse what is too large as a whole."""
    lines = [line(filler="x" * 100_000)] * 5 + [line(filler="x" * 500_000)] + [line()]
    messages = made(*lines)
    assert [2, 2, 1, 1, 1] == [len(message.lines) for message in messages]
    assert all(len(message.value) <= MESSAGE_BYTES or 1 == len(message.lines) for message in messages)


def test_a_configuration_is_followed_by_its_copy() -> None:
    """The same event with the same id, to the topic that keeps the last of each engine."""
    config, other = line("engine.config"), line()
    assert [
        Message("events", b"e", [other, config]),
        Message("engines", b"e", [config], is_copy=True),
        Message("events", b"e", [other]),
    ] == made(other, config, other)


def test_a_configuration_of_no_engine_has_no_copy() -> None:
    """It could not be keyed."""
    assert [Message("events", b"b", [line("engine.config", engine_id="")])] == made(
        line("engine.config", engine_id="")
    )


def test_what_is_no_event_is_sent_all_the_same() -> None:
    """Its reader makes a dead letter of it; nothing is lost silently."""
    assert [Message("events", b"", [b"torn {"])] == made(b"torn {")


def test_after_a_failure_each_line_is_repeated_once() -> None:
    """A copy whose event was confirmed is repeated with the event; one whose event waits, too, is not."""
    first, config, last = line(filler="1"), line("engine.config"), line(filler="2")
    messages = made(first, config, last)
    assert [first, config, last] == unsent_lines(messages)
    assert [config, last] == unsent_lines(messages[1:])
    assert [last] == unsent_lines(messages[2:])
    assert [] == unsent_lines([])


def test_halves_have_all_lines_in_order() -> None:
    """That is how an event too large is found."""
    lines = [line(filler=str(number)) for number in range(5)]
    (message,) = made(*lines)
    first, second = halves(message)
    assert (lines[:2], lines[2:], message.key) == (first.lines, second.lines, second.key)
