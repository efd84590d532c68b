"""What a Kafka message holds: the lines of events, and where each line is to be found again. Imports no Kafka library."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from falseok_pipeline.dead_letters import DeadLetter, Reason

_PLACE = re.compile(r"(?P<topic>.+)\[(?P<partition>\d+)\]@(?P<offset>\d+)", re.DOTALL)

Decoder = Callable[[bytes | None, str], tuple[bytes, Sequence[DeadLetter]]]
"""From a message's value and place to complete lines, each ending in a line break, and what cannot become a line.
Never raises."""


class Place(NamedTuple):
    """Where a message is."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """As dead letters name it, such as `falseok.events.v1[3]@1234`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


def parse_place(text: str) -> Place | None:
    """The place that `str` of it gave, None for what is no place of a message."""
    found = _PLACE.fullmatch(text)
    return Place(found["topic"], int(found["partition"]), int(found["offset"])) if found else None


def lines_of(value: bytes | None, place: str) -> tuple[bytes, tuple[DeadLetter, ...]]:
    """Newline-delimited JSON as the collector sends it; a last line without a line break gets one.

    A message without a value says nothing that could be stored, which has to be told.
    """
    if value is None:
        return b"", (DeadLetter(Reason.NOT_JSON, "the message has no value", place, 0),)
    if not value:
        return b"", (DeadLetter(Reason.NOT_JSON, "the message is empty", place, 0),)
    return value if value.endswith(b"\n") else value + b"\n", ()
