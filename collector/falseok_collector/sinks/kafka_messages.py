"""Lines of events as Kafka messages: many events of one engine a message, and the copies of engine configurations."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from falseok_collector.attributes import EngineConfig

MESSAGE_BYTES = 256 * 1024
"""A message is closed before it grows past this, uncompressed; a single longer line is a message of its own."""


class Message(NamedTuple):
    """One Kafka message. Its key is the engine id, so that an engine's events keep their order in one partition."""

    topic: str
    key: bytes
    lines: list[bytes]
    is_copy: bool = False

    @property
    def value(self) -> bytes:
        """Newline-delimited JSON."""
        return b"\n".join(self.lines) + b"\n"


class _Address(msgspec.Struct):
    """What of an event decides where it goes."""

    engine_id: str = ""
    boot: str = ""
    name: str = ""


_decoder = msgspec.json.Decoder(_Address)


def messages_of(lines: Iterable[bytes], topic: str, engines_topic: str) -> Iterator[Message]:
    """The lines in order as messages; every `engine.config` of a known engine is followed by its copy.

    Events of a process that knows no engine yet are keyed by its boot id, so that they keep their order, too.
    """
    batch: list[bytes] = []
    key, size = b"", 0
    for line in lines:
        address = _address(line)
        line_key = (address.engine_id or address.boot).encode()
        is_config = address.name == EngineConfig.event_name and bool(address.engine_id)
        if batch and (line_key != key or size + len(line) >= MESSAGE_BYTES):
            yield Message(topic, key, batch)
            batch, size = [], 0
        key = line_key
        batch.append(line)
        size += len(line) + 1
        if is_config:
            yield Message(topic, key, batch)
            yield Message(engines_topic, key, [line], is_copy=True)
            batch, size = [], 0
    if batch:
        yield Message(topic, key, batch)


def halves(message: Message) -> list[Message]:
    """The same events in two messages."""
    middle = len(message.lines) // 2
    return [message._replace(lines=message.lines[:middle]), message._replace(lines=message.lines[middle:])]


def unsent_lines(messages: Iterable[Message]) -> list[bytes]:
    """The lines of messages that were not confirmed, each once: a copy alone is repeated by its event."""
    pending = list(messages)
    lines = [line for message in pending if not message.is_copy for line in message.lines]
    return pending[0].lines + lines if pending and pending[0].is_copy else lines


def _address(line: bytes) -> _Address:
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:  # also what is not an event: its reader makes a dead letter of it
        return _Address()
