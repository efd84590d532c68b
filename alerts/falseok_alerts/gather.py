"""From the store's views to the facts of each incident. Reads only; decides nothing about causes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from falseok_alerts.differences import differences_between
from falseok_alerts.facts import EngineFacts, HandshakeFacts, IncidentFacts, ReceiveFacts, ShareFacts
from falseok_alerts.rows import CandidateRow, EngineRow, HandshakeRow, Queries, ReceiveRow, read

_MICROSECONDS = 1_000_000
_EXCEPTIONS_KEPT = 5

_PRIVACY_REASONS = ("b_", "c_", "f_")
"""Reasons after which a user may have been shown another user's text, by their letter in the design."""

_NO_RECEIVE = ReceiveRow(verdict="", reason_or_failure="", prefill_group="", decode_group="", model="")


def gather(store: Queries) -> list[IncidentFacts]:
    """The facts of every incident in the store, in a stable order. May block; raises `QueryError`, `JudgementError`."""
    candidates = read(store, "candidates", CandidateRow)
    if not candidates:
        return []
    engine_ids = sorted(
        {id_ for row in candidates for id_ in (*row.prefill_engine_ids, *row.decode_engine_ids)}
    )
    parameters = {"engine_ids": engine_ids}
    engines = {row.engine_id: row for row in read(store, "engines", EngineRow, parameters)}
    handshakes = read(store, "handshakes", HandshakeRow, parameters)
    receives = {row.fingerprint: row for row in read(store, "receives", ReceiveRow)}
    return [
        _facts(row, engines, handshakes, receives.get(row.fingerprint, _NO_RECEIVE)) for row in candidates
    ]


_LAST_MICROS = 253_402_300_799_999_999
"""The end of year 9999: a clock may claim anything, and a time that cannot be written must not end the judging."""


def rfc3339(micros: int) -> str:
    """Microseconds since the epoch as RFC 3339 in UTC, always with six digits and `Z`."""
    seconds, rest = divmod(min(max(micros, 0), _LAST_MICROS), _MICROSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


def _facts(
    row: CandidateRow,
    engines: Mapping[str, EngineRow],
    handshakes: Iterable[HandshakeRow],
    receive: ReceiveRow,
) -> IncidentFacts:
    prefill = _latest(row.prefill_engine_ids, engines)
    decode = _latest(row.decode_engine_ids, engines)
    return IncidentFacts(
        verdict=row.verdict,
        evidence=row.evidence,
        reason=row.reason,
        failure_type=row.failure_types[0] if row.failure_types else "",
        model=row.model,
        affected=row.affected,
        answered_200=receive.answered_200,
        first_seen=rfc3339(row.first_seen),
        last_seen=rfc3339(row.last_seen),
        privacy=row.verdict == "corrupt" and row.reason.startswith(_PRIVACY_REASONS),
        prefill=_engine(prefill, row.prefill_engine_ids, row.prefill_group),
        decode=_engine(decode, row.decode_engine_ids, row.decode_group),
        prefill_known=prefill is not None and prefill.has_config,
        decode_known=decode is not None and decode.has_config,
        differences=differences_between(prefill, decode),
        handshake=_handshake(row, handshakes),
        receive=_receive(row, receive),
        share=_share(row),
        sample_requests=_samples(row),
    )


def _latest(engine_ids: Sequence[str], engines: Mapping[str, EngineRow]) -> EngineRow | None:
    """The engine seen last: after a restart the group has a new engine id, and its configuration is what counts."""
    known = [engines[engine_id] for engine_id in engine_ids if engine_id in engines]
    return max(
        known, key=lambda engine: (engine.has_config, engine.last_seen, engine.engine_id), default=None
    )


def _engine(engine: EngineRow | None, engine_ids: Sequence[str], group: str) -> EngineFacts:
    if engine is None:
        return EngineFacts(engine_id=engine_ids[-1] if engine_ids else "", group=group)
    return EngineFacts(
        engine_id=engine.engine_id,
        group=group,
        host=engine.hosts[0] if engine.hosts else "",
        role=engine.role,
        version=engine.version,
        model=engine.model,
        dtype=engine.dtype,
        kv_cache_dtype=engine.kv_cache_dtype,
        compatibility_hash=engine.compatibility_hash,
        enforce_handshake_compat=engine.enforce_handshake_compat,
        reports_failed_receives=engine.reports_failed_receives,
        hybrid_memory_allocator=engine.hybrid_memory_allocator,
        kv_load_failure_policy=engine.kv_load_failure_policy,
        started_at=rfc3339(engine.first_seen),
    )


def _handshake(row: CandidateRow, handshakes: Iterable[HandshakeRow]) -> HandshakeFacts:
    mine = [
        pair
        for pair in handshakes
        if pair.prefill_engine_id in row.prefill_engine_ids and pair.decode_engine_id in row.decode_engine_ids
    ]
    return HandshakeFacts(
        attempts=sum(pair.attempts for pair in mine),
        failed=sum(pair.failures for pair in mine),
        failure_types=sorted({kind for pair in mine for kind in pair.failure_types}),
        local_hash=_one({value for pair in mine for value in pair.local_hashes if value}),
        remote_hash=_one({value for pair in mine for value in pair.remote_hashes if value}),
        exceptions=sorted({text for pair in mine for text in pair.exception_messages})[:_EXCEPTIONS_KEPT],
    )


def _one(values: set[str]) -> str:
    """The value, when all agree: a hash shown for several engines would be true of one of them only."""
    return next(iter(values)) if len(values) == 1 else ""


def _receive(row: CandidateRow, receive: ReceiveRow) -> ReceiveFacts:
    return ReceiveFacts(
        failed_requests=row.failed_reads,
        failure_types=row.failure_types,
        expected_tokens_least=receive.expected_tokens_least or None,
        expected_tokens_most=receive.expected_tokens_most or None,
        received_bytes=row.received_bytes,
        resumed_as_received=receive.resumed_as_received,
        policy=_one(set(row.policies)),
        branches=row.resume_branches,
    )


def _share(row: CandidateRow) -> ShareFacts:
    return ShareFacts(
        pair=row.affected / row.pair_requests if row.pair_requests else None,
        pair_requests=row.pair_requests,
        elsewhere=row.elsewhere_affected / row.elsewhere_requests if row.elsewhere_requests else None,
        elsewhere_requests=row.elsewhere_requests,
    )


def _samples(row: CandidateRow) -> list[str]:
    """Ids a person can search for: the client's where it is known, else the engine's."""
    external = row.sample_external_ids or [""] * len(row.sample_request_ids)
    return [outer or inner for outer, inner in zip(external, row.sample_request_ids, strict=True)]
