"""The identity of an incident: the same trouble between the same engines keeps its id over restarts and new evidence.

Built from verdict, reason, engine groups and model only; never from text, request ids, engine ids or evidence.
"""

import base64
import hashlib

import msgspec

SCHEME_VERSION = 1
"""Raised when the parts of the fingerprint change; old and new ids then never collide."""

ID_PREFIX = "INC-"
_ID_BYTES = 5
"""40 bits, 8 base32 characters: short enough to read aloud, unlikely to collide within one fleet."""


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that make two requests belong to one incident."""

    verdict: str
    reason: str
    prefill_group: str
    decode_group: str
    model: str


def incident_id(fingerprint: Fingerprint) -> str:
    """`INC-` and 8 base32 characters; also the pager's dedup key. Equal fingerprints give equal ids on any machine."""
    parts = [SCHEME_VERSION, *msgspec.structs.astuple(fingerprint)]
    digest = hashlib.sha256(msgspec.json.encode(parts)).digest()
    return ID_PREFIX + base64.b32encode(digest[:_ID_BYTES]).decode("ascii")
