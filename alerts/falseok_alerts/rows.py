"""The rows of this package's queries as typed structs: where the store's types meet ours, and nowhere else."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Protocol, TypeVar

import msgspec

from falseok_alerts.errors import JudgementError

_R = TypeVar("_R", bound="Row")


class Queries(Protocol):
    """What this package needs of a store: the pipeline's `Store` is one."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Rows of one statement; may block, raises the pipeline's `QueryError`."""
        ...


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all rows."""


class CandidateRow(Row, frozen=True, kw_only=True):
    """One row of `candidates.sql`: requests that share a fingerprint."""

    verdict: str
    reason: str
    prefill_group: str
    decode_group: str
    model: str
    evidence: str
    affected: int
    prefill_engine_ids: list[str]
    decode_engine_ids: list[str]
    first_seen: int
    last_seen: int
    sample_request_ids: list[str]
    sample_external_ids: list[str]
    failure_types: list[str]
    resume_branches: list[str]
    policies: list[str]
    failed_reads: int
    received_bytes: int
    pair_requests: int
    elsewhere_requests: int
    elsewhere_affected: int

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """The key the other queries are matched by."""
        return (self.verdict, self.reason, self.prefill_group, self.decode_group, self.model)


class ReceiveRow(Row, frozen=True, kw_only=True):
    """One row of `receives.sql`."""

    verdict: str
    reason_or_failure: str
    prefill_group: str
    decode_group: str
    model: str
    answered_200: int = 0
    expected_tokens_least: int = 0
    expected_tokens_most: int = 0
    resumed_as_received: int = 0

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """The candidate's key."""
        return (self.verdict, self.reason_or_failure, self.prefill_group, self.decode_group, self.model)


class EngineRow(Row, frozen=True, kw_only=True):
    """One row of `engines.sql`."""

    engine_id: str
    group: str
    hosts: list[str]
    role: str
    version: str
    model: str
    dtype: str
    kv_cache_dtype: str
    compatibility_hash: str
    enforce_handshake_compat: bool | None
    reports_failed_receives: bool | None
    hybrid_memory_allocator: bool | None
    kv_load_failure_policy: str
    factors: dict[str, str]
    factors_compared: dict[str, str]
    has_config: bool
    from_log: bool = False
    """Known from log lines alone, which do not show every factor."""
    first_seen: int
    last_seen: int


class HandshakeRow(Row, frozen=True, kw_only=True):
    """One row of `handshakes.sql`."""

    prefill_engine_id: str
    decode_engine_id: str
    attempts: int
    failures: int
    failure_types: list[str]
    local_hashes: list[str]
    remote_hashes: list[str]
    exception_messages: list[str]


def read(
    store: Queries, name: str, kind: type[_R], parameters: Mapping[str, Sequence[str]] | None = None
) -> list[_R]:
    """The rows of `sql/<name>.sql`.

    Raises:
        JudgementError: a row has another shape than the struct; the message names the query and the field.
    """
    statement = (files("falseok_alerts") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    rows = store.query(statement, parameters)
    try:
        # Not strict: ClickHouse has no boolean in some transports and hands out 0 and 1.
        return msgspec.convert(rows, list[kind], strict=False)  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise JudgementError(
            f"query {name}: {error}",
            hint="The store was written by another release of FalseOK; use the release that wrote it, or fold it anew.",
        ) from error
