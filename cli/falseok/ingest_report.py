"""What `falseok ingest logs` found, as one document: the table and `--json` show the same."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from falseok.statements import statement
from falseok_alerts.gather import rfc3339
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_collector.redaction import redact
from falseok_pipeline.sources.logs.engines import EngineState
from falseok_pipeline.sources.logs.ingest import Read
from falseok_pipeline.sources.logs.reader import FileReport
from falseok_pipeline.store import Store

_SHOWN_IDS = 1_000


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all parts of the document."""


class FilePart(Part, frozen=True, kw_only=True):
    """One file."""

    path: str
    lines: int
    understood: int
    meaningless: int
    dead_lettered: int
    year: int
    year_from: str
    damage: str


class LinesPart(Part, frozen=True, kw_only=True):
    """Every line once: read = understood + meaningless + dead-lettered."""

    read: int
    understood: dict[str, int]
    meaningless: dict[str, int]
    dead_lettered: int


class EnginePart(Part, frozen=True, kw_only=True):
    """One engine as its log shows it."""

    engine_id: str
    role: str
    kv_role: str
    kv_connector: str
    vllm_version: str
    dtype: str
    attention_backend: str
    kv_cache_tokens: int
    compatibility_hash: str
    kv_load_failure_policy: str
    non_default_arguments: dict[str, Any]
    factors: dict[str, Any]
    started_at: str


class HandshakePart(Part, frozen=True, kw_only=True):
    """Attempts of one engine to greet another; local is the one that tried (decode)."""

    prefill_engine_id: str
    decode_engine_id: str
    attempts: int
    failures: int
    failure_types: list[str]
    local_hash: str
    remote_hash: str
    message: str


class WindowPart(Part, frozen=True, kw_only=True):
    """Failures close together, and the answers around them. `fits` is null where nothing had to be joined."""

    first_seen: str
    last_seen: str
    failed_requests: int
    answers_2xx: int
    answers_5xx: int
    fits: bool | None
    note: str


class FailuresPart(Part, frozen=True, kw_only=True):
    """Requests whose KV transfer failed, and how their answers were found."""

    requests: int
    failure_types: dict[str, int]
    joined_by_id: int
    joined_by_count_and_time: int
    joined_though_counts_do_not_fit: int
    ended_in_error_by_log: int
    without_answer: int
    windows: list[WindowPart]


class LeasesPart(Part, frozen=True, kw_only=True):
    """Offers that ended because their lease did."""

    expired: int
    without_readers: int
    of_failed_requests: int
    request_ids: list[str]


class IngestReport(Part, frozen=True, kw_only=True):
    """The whole document."""

    data: str
    time_zone: str
    files: list[FilePart]
    repeated_files: list[str]
    lines: LinesPart
    access: LinesPart
    engines: list[EnginePart]
    differing_factors: list[dict[str, Any]]
    handshakes: list[HandshakePart]
    failures: FailuresPart
    answers: dict[str, int]
    leases: LeasesPart
    late_notices: int
    verdicts: list[dict[str, Any]]
    incidents: list[Incident]
    events: int
    damage: list[str]

    @property
    def corrupt(self) -> int:
        """Requests that were answered with corrupted output, however sure."""
        return sum(row["requests"] for row in self.verdicts if row["verdict"] == "corrupt")

    @property
    def unjudged(self) -> int:
        """Failed requests of which the files do not tell how they ended."""
        return sum(row["requests"] for row in self.verdicts if row["verdict"] == "unobserved")


def report_of(read: Read, store: Store, data: str, time_zone: str) -> IngestReport:
    """Put the document together; judges what is in the store of the engines that were read. Raises `QueryError`."""
    engine_ids = sorted({engine.engine_id for engine in read.engines})
    bound = {"engine_ids": engine_ids}
    kinds = store.query(statement("ingest_failure_types"), bound)
    return IngestReport(
        data=data,
        time_zone=time_zone,
        files=[_file(file) for file in read.files],
        repeated_files=read.repeated,
        lines=LinesPart(
            read=read.counts.lines,
            understood=_ordered(read.counts.understood),
            meaningless=_ordered(read.counts.meaningless),
            dead_lettered=read.counts.dead_letters,
        ),
        access=LinesPart(
            read=read.access.lines,
            understood=_ordered(read.access.understood),
            meaningless=_ordered(read.access.meaningless),
            dead_lettered=read.access.dead_letters,
        ),
        engines=[_engine(engine) for engine in read.engines],
        differing_factors=store.query(statement("ingest_differences"), bound),
        handshakes=_handshakes(read),
        failures=_failures(read, {row["failure_type"]: int(row["requests"]) for row in kinds}),
        answers=_answers(read),
        leases=_leases(read, store.query(statement("ingest_leases"), bound)),
        late_notices=sum(server.late_notices for server in read.servers),
        verdicts=store.query(statement("ingest_verdicts"), bound),
        incidents=[incident for incident in judge(store) if _concerns(incident, engine_ids)],
        events=read.events,
        damage=read.damage,
    )


def _concerns(incident: Incident, engine_ids: Sequence[str]) -> bool:
    return incident.prefill_engine.engine_id in engine_ids or incident.decode_engine.engine_id in engine_ids


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _file(file: FileReport) -> FilePart:
    return FilePart(
        path=file.path,
        lines=file.counts.lines,
        understood=file.counts.understood.total(),
        meaningless=file.counts.meaningless.total(),
        dead_lettered=file.counts.dead_letters,
        year=file.year,
        year_from=file.year_from,
        damage=file.damage,
    )


def _engine(engine: EngineState) -> EnginePart:
    event = engine.event(frozenset(engine.factors()))
    return EnginePart(
        engine_id=engine.engine_id,
        role=engine.role,
        kv_role=event.role if engine.started else "",
        kv_connector=event.kv_connector,
        vllm_version=engine.version,
        dtype=event.dtype,
        attention_backend=event.attention_backend,
        kv_cache_tokens=event.kv_cache_tokens,
        compatibility_hash=event.compatibility_hash,
        kv_load_failure_policy=event.kv_load_failure_policy,
        non_default_arguments=event.non_default_arguments,
        factors=redact(event.factors),
        started_at=rfc3339(engine.first_micros) if engine.first_micros else "",
    )


def _handshakes(read: Read) -> list[HandshakePart]:
    return [
        HandshakePart(
            prefill_engine_id=prefill,
            decode_engine_id=decode,
            attempts=pair.attempts,
            failures=pair.failures,
            failure_types=sorted(pair.failure_types),
            local_hash=pair.local_hash,
            remote_hash=pair.remote_hash,
            message=pair.message,
        )
        for server in read.servers
        for (decode, prefill), pair in sorted(server.handshakes.items())
    ]


def _failures(read: Read, failure_types: dict[str, int]) -> FailuresPart:
    how = Counter(answer.joined_by for answer in read.joined)
    requests = len(read.failures)
    joined = {id(answer.failure) for answer in read.joined}
    told = sum(
        failure.resolved and not failure.answered_by_id and id(failure) not in joined
        for failure in read.failures
    )
    return FailuresPart(
        requests=requests,
        failure_types=failure_types,
        joined_by_id=read.joined_by_id,
        joined_by_count_and_time=how["count_and_time"],
        joined_though_counts_do_not_fit=how["count_mismatch"],
        ended_in_error_by_log=told,
        without_answer=requests - read.joined_by_id - how.total() - told,
        windows=[
            WindowPart(
                first_seen=rfc3339(window.first_micros),
                last_seen=rfc3339(window.last_micros),
                failed_requests=len(window.failures),
                answers_2xx=window.succeeded,
                answers_5xx=window.errors,
                fits=window.fits,
                note=window.note,
            )
            for window in read.windows
        ],
    )


def _answers(read: Read) -> dict[str, int]:
    found: Counter[int] = Counter()
    for server in read.servers:
        if server.role == "decode":
            found.update(server.answers)
    return {str(status): count for status, count in sorted(found.items())}


def _leases(read: Read, rows: Sequence[dict[str, Any]]) -> LeasesPart:
    leases = [lease for server in read.servers for lease in server.leases]
    return LeasesPart(
        expired=len(leases),
        without_readers=sum(readers == 0 for *_, readers in leases),
        of_failed_requests=int(rows[0]["transfers"]) if rows else 0,
        request_ids=[request_id for _, request_id, _ in leases[:_SHOWN_IDS]],
    )
