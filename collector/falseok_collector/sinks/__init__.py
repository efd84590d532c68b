"""Where encoded events go. Every sink has a thread of its own (`falseok_collector.outlet`), so it may block."""

import math
from abc import ABC, abstractmethod
from enum import StrEnum

import msgspec


class Condition(StrEnum):
    """How a sink is doing."""

    OK = "ok"
    RETRYING = "retrying"
    """It refuses events; they wait in memory and are offered again."""
    SPOOLING = "spooling"
    """Its receiver is away; events go to a spool of its own."""
    DRAINING = "draining"
    """Its receiver is back; what was spooled is sent in order."""
    UNAVAILABLE = "unavailable"
    """Its library is not installed; it takes nothing."""


class Counts(msgspec.Struct):
    """What became of the events a sink took. The sink's own thread writes it, others only read."""

    condition: Condition = Condition.OK
    sent: int = 0
    """Events their receiver has confirmed."""
    waiting: int = 0
    """Events the sink itself keeps until it can send them."""
    lost: int = 0
    """Events the receiver will never take."""
    spilled: int = 0
    """Events dropped because a bound was passed."""
    segments_dropped: int = 0
    """Files they were dropped with."""
    errors: int = 0
    """Attempts of the sink's own that failed; `write` raising is counted by its outlet."""
    last_error: str = ""
    """Class of the last such failure: never its text, which may quote addresses and credentials."""


class Sink(ABC):
    """Receives batches of encoded events. One thread calls it, except for `hurry` and `abandon`."""

    name: str

    def __init__(self) -> None:
        self.counts = Counts()

    @abstractmethod
    def write(self, lines: list[bytes]) -> None:
        """Keep all the lines, or raise `OSError` having kept none of them; the same lines are offered again.

        May block, for a bounded time.
        """
        ...

    def maintain(self) -> float:
        """Do a piece of what is due beside writing; seconds until it wants to be called again at the latest."""
        return math.inf

    def hurry(self) -> None:
        """The process ends: whatever blocks, now or later, has to come back within about a second."""
        return

    @abstractmethod
    def close(self) -> None:
        """Flush and release everything. Called once, at the end of the process."""
        ...

    @abstractmethod
    def abandon(self) -> None:
        """Let go of everything without writing or locking: this process is a fork of the one that owns the sink."""
        ...
