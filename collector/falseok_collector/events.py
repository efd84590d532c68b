"""The envelope every event travels in, and how it is written and read (contract version 1).

One event is one line of JSON; a Kafka message or a spool segment holds many lines.
The reader validates the envelope strictly and leaves `attrs` raw, because the store takes the original bytes.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from falseok_collector.attributes import ATTRIBUTES, Attributes

CONTRACT_VERSION = 1
CONTENT_TYPE = "application/x-ndjson; v=1"

MAX_LINE_BYTES = 1_048_576
"""A longer line is refused: no event of ours comes near it."""

_INT64_MAX = 2**63 - 1
_Short = Annotated[str, msgspec.Meta(max_length=256)]
_Long = Annotated[str, msgspec.Meta(max_length=1024)]
_Micros = Annotated[int, msgspec.Meta(ge=0, le=_INT64_MAX)]


class Origin(StrEnum):
    """How an event was learned; it bounds the evidence level of what is concluded from it."""

    HOOK = "hook"
    LOG = "log"
    SIDE_CHANNEL = "side_channel"
    METRICS = "metrics"
    PROBE = "probe"


class Envelope(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The flat part of an event: who says what about which request, when.

    `attrs` holds the event's own fields as raw JSON when read; see `falseok_collector.attributes`.
    """

    v: Annotated[int, msgspec.Meta(ge=1, le=CONTRACT_VERSION, description="Contract version.")]
    id: Annotated[
        str, msgspec.Meta(min_length=3, max_length=256, description="`<boot>-<seq>`; kept on re-delivery.")
    ]
    ts: Annotated[_Micros, msgspec.Meta(description="Wall clock, microseconds since the epoch, UTC.")]
    mono: Annotated[_Micros, msgspec.Meta(description="Monotonic clock of the host, microseconds.")]
    boot: Annotated[str, msgspec.Meta(min_length=1, max_length=128, description="Id of the process start.")]
    seq: Annotated[_Micros, msgspec.Meta(description="Gap-free within `boot`: a gap proves loss.")]
    name: Annotated[
        str,
        msgspec.Meta(pattern=r"^[a-z][a-z_]*(\.[a-z][a-z_]*)+$", max_length=64, description="Event name."),
    ]
    origin: Annotated[Origin, msgspec.Meta(description="How it was learned.")]
    engine_id: Annotated[_Short, msgspec.Meta(description="NIXL engine id.")] = ""
    group: Annotated[
        _Short,
        msgspec.Meta(description="FALSEOK_ENGINE_GROUP, else side-channel host:port, else engine id."),
    ] = ""
    rank: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1, description="Worker rank, -1: not a worker.")] = -1
    host: Annotated[_Short, msgspec.Meta(description="Host name.")] = ""
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="Process id.")] = 0
    request_id: Annotated[_Long, msgspec.Meta(description="Engine-internal id in this process.")] = ""
    external_id: Annotated[
        _Long, msgspec.Meta(description="Id the client or router sent, without vLLM's prefix and suffix.")
    ] = ""
    transfer_id: Annotated[
        _Long, msgspec.Meta(description="`<producer engine id>/<producer internal request id>`.")
    ] = ""
    trace_id: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{32})?$", description="W3C trace id.")] = ""
    span_id: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{16})?$", description="W3C span id.")] = ""
    attrs: Annotated[msgspec.Raw, msgspec.Meta(description="The event's own fields.")] = msgspec.Raw(b"{}")


ENVELOPE_FIELDS: tuple[str, ...] = Envelope.__struct_fields__

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)


def encode(envelope: Envelope, attributes: Attributes) -> bytes:
    """One event as one line of JSON, without the line break.

    Raises `TypeError` or `UnicodeEncodeError` for values JSON cannot hold; field types are not checked.
    """
    envelope.attrs = msgspec.Raw(_encoder.encode(attributes))
    return _encoder.encode(envelope)


def decode(line: bytes) -> Envelope:
    """Read one line strictly.

    Raises:
        msgspec.ValidationError: a field is missing, unknown, of another type or out of range.
        msgspec.DecodeError: the line is not JSON.
        RecursionError: the line is nested too deeply.
    """
    envelope = _decoder.decode(line)
    if not bytes(envelope.attrs).startswith(b"{"):
        raise msgspec.ValidationError("Expected `object` - at `$.attrs`")
    return envelope


def attributes_of(envelope: Envelope) -> Attributes | Mapping[str, Any]:
    """The event's attributes as their typed struct, or as a plain mapping for a name this release does not know.

    Raises `msgspec.ValidationError` when known attributes have wrong types.
    """
    struct = ATTRIBUTES.get(envelope.name)
    if struct is None:
        mapping: dict[str, Any] = msgspec.json.decode(bytes(envelope.attrs), type=dict[str, Any])
        return mapping
    return msgspec.json.decode(bytes(envelope.attrs), type=struct)
