"""The typed check of envelopes, as strict as the event contract and fast enough to run on every line.

Strictness is that of `falseok_collector.events.decode`; what a regular expression would check there is checked
here by set membership where that says the same.
"""

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from falseok_collector.attributes import ATTRIBUTES
from falseok_collector.events import Envelope

_NAME = re.compile(r"[a-z][a-z_]*(\.[a-z][a-z_]*)+")
_KNOWN_NAMES = frozenset(ATTRIBUTES)


class AnyObject(msgspec.Struct, gc=False):
    """Any JSON object: decoding into it checks that it is one and keeps nothing."""


class CheckedEnvelope(Envelope, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The envelope without its attributes, for checking only. Its name still has to be checked by `names_allowed`."""

    name: Annotated[str, msgspec.Meta(max_length=64)]
    attrs: AnyObject = msgspec.field(default_factory=AnyObject)  # type: ignore[assignment]


decoder = msgspec.json.Decoder(CheckedEnvelope)


def names_allowed(names: Iterable[str]) -> bool:
    """Whether all are event names of the contract or could be of a later release."""
    return all(_NAME.fullmatch(name) for name in set(names) - _KNOWN_NAMES)


def id_of(envelope: Envelope) -> str:
    """What `id` has to be."""
    return f"{envelope.boot}-{envelope.seq}"
