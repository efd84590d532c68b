"""Turns a record of the ring into the line that travels. Runs in the sender thread, never in a hook."""

import msgspec

from falseok_collector.deferred import Deferred
from falseok_collector.events import CONTRACT_VERSION, MAX_LINE_BYTES, Envelope, Origin, encode
from falseok_collector.hashing import KeyedHash
from falseok_collector.identity import bounded_id, external_id_of, trace_ids
from falseok_collector.ring import Record


class Source(msgspec.Struct, kw_only=True):
    """The process that speaks, for all its events. What is learned late counts for earlier records, too."""

    boot: str
    host: str
    pid: int
    engine_id: str = ""
    group: str = ""


def encode_record(record: Record, source: Source, keyed_hash: KeyedHash) -> bytes:
    """One event as one line.

    Raises `Exception` of any kind when the attributes cannot be finished or encoded, and `ValueError` for a line
    that readers would refuse as too long.
    """
    attributes = record.attributes
    if isinstance(attributes, Deferred):
        attributes = attributes.finish(keyed_hash)
    trace_id, span_id = trace_ids(record.traceparent)
    engine_id = record.engine_id or source.engine_id
    envelope = Envelope(
        v=CONTRACT_VERSION,
        id=f"{source.boot}-{record.seq}",
        ts=record.wall_ns // 1_000,
        mono=record.mono_ns // 1_000,
        boot=source.boot,
        seq=record.seq,
        name=attributes.event_name,
        origin=Origin.HOOK,
        engine_id=engine_id[:256],
        group=(source.group or engine_id)[:256],
        rank=record.rank,
        host=source.host[:256],
        pid=source.pid,
        request_id=bounded_id(record.request_id),
        external_id=bounded_id(record.external_id or external_id_of(record.request_id)),
        transfer_id=bounded_id(record.transfer_id),
        trace_id=trace_id,
        span_id=span_id,
    )
    line = encode(envelope, attributes)
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(
            f"{envelope.name} takes {len(line)} bytes, readers refuse more than {MAX_LINE_BYTES}"
        )
    return line
