"""Attributes whose costly part (digests, keyed hashes) is computed by the sender thread, not by the hook."""

from typing import Protocol, runtime_checkable

from falseok_collector.attributes import Attributes
from falseok_collector.hashing import KeyedHash


@runtime_checkable
class Deferred(Protocol):
    """A snapshot taken by a hook that still has to be turned into attributes."""

    def finish(self, keyed_hash: KeyedHash) -> Attributes:
        """Compute the attributes. Runs in the sender thread; may take time, must not touch engine state."""
        ...
