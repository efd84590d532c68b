"""The bounded buffer between the hooks and the sender thread.

Appending takes constant time, takes no lock and never blocks; when the ring is full the newest record is
refused, so that what explains the start of a trouble is kept.
"""

from collections import deque
from itertools import count
from typing import Any, NamedTuple

from falseok_collector.attributes import Attributes
from falseok_collector.deferred import Deferred


class Record(NamedTuple):
    """One event as the hook saw it: nothing is encoded, hashed or formatted yet."""

    seq: int
    wall_ns: int
    mono_ns: int
    attributes: Attributes | Deferred
    engine_id: str
    rank: int
    request_id: str
    external_id: str
    transfer_id: str
    traceparent: str


class Ring:
    """A bounded queue with one consumer and any number of producers (deque operations are atomic)."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._records: deque[Record] = deque()
        self._numbers = count(1)
        self.dropped = 0

    def next_number(self) -> int:
        """The next gap-free sequence number; a record refused afterwards leaves a gap, which proves the loss."""
        return next(self._numbers)

    def append(self, record: Record) -> bool:
        """Keep the record, or count it as dropped and return False."""
        if len(self._records) >= self._capacity:
            self.dropped += 1
            return False
        self._records.append(record)
        return True

    def close(self) -> None:
        """Refuse what is appended from now on: nobody will take it. What is in the ring stays."""
        self._capacity = 0

    def take(self, most: int) -> list[Record]:
        """Remove and return up to `most` records, oldest first. Only the sender thread calls this."""
        taken: list[Record] = []
        records: Any = self._records
        try:
            while len(taken) < most:
                taken.append(records.popleft())
        except IndexError:
            pass
        return taken

    def __len__(self) -> int:
        return len(self._records)
