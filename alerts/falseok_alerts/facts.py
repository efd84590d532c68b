"""The facts of one incident as typed structs: what causes are judged on, and nothing else.

Must not know the store (see `gather`) nor the causes. `None`, an empty text and an empty list all mean "not known".
"""

import msgspec

RECEIVE_FAILURES = frozenset(
    {"handshake_failed", "transfer_setup_failed", "transfer_failed", "transfer_exception", "declined"}
)
"""vLLM's failure types after which the KV is not (completely) there; `notification_failed` never is one."""


class FactsStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all fact structs: frozen, by keyword, no unknown fields (a misspelt fact must not read as missing)."""


class EngineFacts(FactsStruct, frozen=True, kw_only=True):
    """One engine as its own `engine.config` describes it."""

    engine_id: str = ""
    group: str = ""
    host: str = ""
    role: str = ""
    version: str = ""
    model: str = ""
    dtype: str = ""
    kv_cache_dtype: str = ""
    compatibility_hash: str = ""
    enforce_handshake_compat: bool | None = None
    reports_failed_receives: bool | None = None
    hybrid_memory_allocator: bool | None = None
    kv_load_failure_policy: str = ""
    started_at: str = ""


class Difference(FactsStruct, frozen=True, kw_only=True):
    """One factor of the NIXL compatibility hash on which the two engines do not agree.

    `prefill` and `decode` are the values verbatim, for display; the `_compared` ones are normalised, for judging.
    """

    factor: str
    prefill: str = ""
    decode: str = ""
    prefill_compared: str = ""
    decode_compared: str = ""


class HandshakeFacts(FactsStruct, frozen=True, kw_only=True):
    """All handshake attempts between the two engines, as the initiator reported them."""

    attempts: int = 0
    failed: int = 0
    failure_types: list[str] = []
    local_hash: str = ""
    remote_hash: str = ""
    exceptions: list[str] = []


class ReceiveFacts(FactsStruct, frozen=True, kw_only=True):
    """What decode expected from prefill for the affected requests, what came, and how it failed."""

    failed_requests: int = 0
    failure_types: list[str] = []
    expected_tokens_least: int | None = None
    expected_tokens_most: int | None = None
    received_bytes: int | None = None
    resumed_as_received: int = 0
    policy: str = ""
    branches: list[str] = []


class ShareFacts(FactsStruct, frozen=True, kw_only=True):
    """How concentrated the trouble is; both shares between 0 and 1, `None` where there was no traffic."""

    pair: float | None = None
    pair_requests: int = 0
    elsewhere: float | None = None
    elsewhere_requests: int = 0


class IncidentFacts(FactsStruct, frozen=True, kw_only=True):
    """Everything known about one incident: the input of causes, ranking and rendering."""

    verdict: str = ""
    evidence: str = ""
    reason: str = ""
    failure_type: str = ""
    model: str = ""
    affected: int = 0
    answered_200: int = 0
    first_seen: str = ""
    last_seen: str = ""
    privacy: bool = False
    prefill: EngineFacts = EngineFacts()
    decode: EngineFacts = EngineFacts()
    prefill_known: bool = False
    decode_known: bool = False
    differences: list[Difference] = []
    handshake: HandshakeFacts = HandshakeFacts()
    receive: ReceiveFacts = ReceiveFacts()
    share: ShareFacts = ShareFacts()
    sample_requests: list[str] = []
