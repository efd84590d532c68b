"""A record becomes an event: who says what about which request."""

import msgspec
import pytest

from falseok_collector.attributes import Attributes, KvOffer, SchedFinish, SchedPreempt
from falseok_collector.encoding import Source, encode_record
from falseok_collector.events import MAX_LINE_BYTES, Envelope, Origin, decode
from falseok_collector.hashing import KeyedHash
from falseok_collector.ring import Record

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SOURCE = Source(boot="b0", host="gpu-1", pid=7)
HASH = KeyedHash("salt")


def record(attributes: Attributes, **changes: object) -> Record:
    """A record as a hook leaves it."""
    plain = Record(3, 1_700_000_000_123_456_789, 5_000_999, attributes, "", -1, "", "", "", "")
    return plain._replace(**changes)  # type: ignore[arg-type] # names are checked by the call itself


def encoded(given: Record, source: Source = SOURCE) -> Envelope:
    """The event as its reader sees it."""
    return decode(encode_record(given, source, HASH))


def test_every_envelope_field_comes_from_the_record_and_its_source() -> None:
    """Times in whole microseconds, the id out of boot and number."""
    source = Source(boot="b0", host="gpu-1", pid=7, engine_id="e1", group="chat")
    given = record(
        SchedFinish(status="FINISHED_STOPPED"),
        rank=2,
        request_id="cmpl-x-0-0123abcd",
        transfer_id="e0/y",
        traceparent=TRACE,
    )
    expected = Envelope(
        v=1,
        id="b0-3",
        ts=1_700_000_000_123_456,
        mono=5_000,
        boot="b0",
        seq=3,
        name="sched.finish",
        origin=Origin.HOOK,
        engine_id="e1",
        group="chat",
        rank=2,
        host="gpu-1",
        pid=7,
        request_id="cmpl-x-0-0123abcd",
        external_id="x",
        transfer_id="e0/y",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
        attrs=msgspec.Raw(b'{"status":"FINISHED_STOPPED"}'),
    )
    assert expected == encoded(given, source)


def test_the_engine_of_the_record_wins_over_that_of_the_process() -> None:
    """A process may serve several engines; the group falls back to the engine."""
    source = Source(boot="b0", host="h", pid=1, engine_id="process")
    event = encoded(record(SchedPreempt(), engine_id="record"), source)
    assert ("record", "record") == (event.engine_id, event.group)


def test_an_external_id_that_is_known_is_not_derived() -> None:
    """What the client sent beats what the internal id looks like."""
    event = encoded(record(SchedPreempt(), request_id="cmpl-x-0-0123abcd", external_id="given"))
    assert "given" == event.external_id


def test_identifiers_are_cut_to_what_the_contract_allows() -> None:
    """A client may send an id of any length: the event still is readable."""
    long = "i" * 5_000
    source = Source(boot="b0", host=long, pid=1, group=long)
    event = encoded(
        record(SchedPreempt(), request_id=long, external_id=long, transfer_id=long, engine_id=long), source
    )
    lengths = [
        event.request_id,
        event.external_id,
        event.transfer_id,
        event.engine_id,
        event.group,
        event.host,
    ]
    assert [1000, 1000, 1000, 256, 256, 256] == [len(text) for text in lengths]


class Finishing(msgspec.Struct):
    """A snapshot whose hash is still to be computed."""

    def finish(self, keyed_hash: KeyedHash) -> SchedPreempt | KvOffer:
        """Use the hash it is given."""
        return KvOffer(salt_id=keyed_hash.salt_id)


def test_a_deferred_record_is_finished_first() -> None:
    """Costly parts are computed here, not in the hook; the name is that of the finished attributes."""
    given = Record(3, 0, 0, Finishing(), "", -1, "", "", "", "")
    event = encoded(given)
    assert ("kv.offer", b'{"salt_id":"%s"}' % HASH.salt_id.encode()) == (event.name, bytes(event.attrs))


def test_a_line_that_readers_would_refuse_is_not_sent() -> None:
    """It is counted as lost here, where the count is told, rather than dead-lettered there."""
    with pytest.raises(
        ValueError, match=f"kv.offer takes .* bytes, readers refuse more than {MAX_LINE_BYTES}"
    ):
        encode_record(record(KvOffer(lora="x" * MAX_LINE_BYTES)), SOURCE, HASH)
