"""What several observers do alike: remember within a bound, tell an error, measure how long something took."""

import time
from collections import OrderedDict
from typing import Any, TypeVar

_Value = TypeVar("_Value")

MAX_TRACKED = 65_536
"""Most requests an observer remembers at a time; the oldest is forgotten for the next."""
MESSAGE_CHARACTERS = 2_000
"""Most characters of an exception's message that an event carries."""


def remember(entries: OrderedDict[str, _Value], key: str, value: _Value) -> None:
    """Keep a value under a key; the oldest entry goes when there are more than `MAX_TRACKED`."""
    entries[key] = value
    if len(entries) > MAX_TRACKED:
        entries.popitem(last=False)


def error_fields(error: BaseException | None) -> dict[str, Any]:
    """`error_class` and `error_message` of an event, by name; empty texts where nothing was raised."""
    if error is None:
        return {"error_class": "", "error_message": ""}
    return {"error_class": type(error).__name__, "error_message": str(error)[:MESSAGE_CHARACTERS]}


def seconds_since(started_ns: int) -> float:
    """Seconds since a reading of the monotonic clock in nanoseconds."""
    return (time.monotonic_ns() - started_ns) / 1e9
