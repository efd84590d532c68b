"""The facts of the incident in the design's picture: 32 corrupted answers, dtype differs, vLLM 0.27.0."""

from falseok_alerts.facts import (
    Difference,
    EngineFacts,
    HandshakeFacts,
    IncidentFacts,
    ReceiveFacts,
    ShareFacts,
)

PREFILL_ID = "3689deac-5f0e-4c53-9df1-0d3b7a1f6c11"
DECODE_ID = "36c6eafa-9a0b-4f0e-8a57-6e1f2f0c7d22"
PREFILL_HASH = "51430df9" + "a" * 56
DECODE_HASH = "0dfe775a" + "b" * 56


def engine(engine_id: str, dtype: str, compatibility_hash: str, group: str, role: str) -> EngineFacts:
    """An engine of vLLM 0.27.0 with a hybrid cache."""
    return EngineFacts(
        engine_id=engine_id,
        group=group,
        host="gpu-1",
        role=role,
        version="0.27.0",
        model="tiny",
        dtype=dtype,
        kv_cache_dtype="auto",
        compatibility_hash=compatibility_hash,
        enforce_handshake_compat=True,
        reports_failed_receives=False,
        hybrid_memory_allocator=True,
        kv_load_failure_policy="fail",
        started_at="2026-08-14T10:00:00.000000Z",
    )


DTYPE_MISMATCH = IncidentFacts(
    verdict="corrupt",
    evidence="proven",
    reason="a_missing_kv",
    failure_type="handshake_failed",
    model="tiny",
    affected=32,
    answered_200=32,
    first_seen="2026-08-14T10:02:11.120000Z",
    last_seen="2026-08-14T10:02:58.004000Z",
    prefill=engine(PREFILL_ID, "torch.bfloat16", PREFILL_HASH, "gpu-1:5600", "kv_producer"),
    decode=engine(DECODE_ID, "torch.float32", DECODE_HASH, "gpu-1:5700", "kv_consumer"),
    prefill_known=True,
    decode_known=True,
    differences=[
        Difference(
            factor="dtype",
            prefill="torch.bfloat16",
            decode="torch.float32",
            prefill_compared="bfloat16",
            decode_compared="float32",
        )
    ],
    handshake=HandshakeFacts(
        attempts=32,
        failed=32,
        failure_types=["hash_mismatch"],
        local_hash=DECODE_HASH,
        remote_hash=PREFILL_HASH,
        exceptions=["NIXL compatibility hash mismatch. Local: 0dfe775a, Remote: 51430df9."],
    ),
    receive=ReceiveFacts(
        failed_requests=32,
        failure_types=["handshake_failed"],
        expected_tokens_least=183,
        expected_tokens_most=183,
        received_bytes=0,
        resumed_as_received=32,
        policy="fail",
        branches=["resume"],
    ),
    share=ShareFacts(pair=1.0, pair_requests=32, elsewhere=0.0, elsewhere_requests=0),
    sample_requests=["req-000", "req-001", "req-002"],
)
