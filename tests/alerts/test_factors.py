"""What is known of the hash factors, and what is never recommended blindly."""

import msgspec
import pytest

from falseok_alerts.catalogue import shipped
from falseok_alerts.evaluation import findings
from falseok_alerts.factors import BoundDifference, bind_all
from falseok_alerts.facts import Difference, EngineFacts, HandshakeFacts, IncidentFacts

FACTORS = shipped().factors

HASHED_FACTORS = {
    "vllm_version",
    "nixl_connector_version",
    "model",
    "dtype",
    "num_kv_heads",
    "head_size",
    "num_hidden_layers",
    "attn_backend_name",
    "cache_dtype",
    "cross_layers_blocks",
    "is_hma_enabled",
    "speculative_config",
    "transfer_mode",
}
"""All factors that vLLM 0.26 to 0.33 hash between them."""


def difference(factor: str, prefill: str, decode: str) -> Difference:
    """A difference whose compared values are the verbatim ones without the `torch.` prefix."""
    return Difference(
        factor=factor,
        prefill=prefill,
        decode=decode,
        prefill_compared=prefill.removeprefix("torch."),
        decode_compared=decode.removeprefix("torch."),
    )


def bound(*differences: Difference, **engine: str) -> list[BoundDifference]:
    """The differences bound under facts in which both engines have the given fields."""
    facts = IncidentFacts(prefill=EngineFacts(**engine), decode=EngineFacts(**engine))  # type: ignore[arg-type]
    return bind_all(list(differences), FACTORS, msgspec.to_builtins(facts))


def test_every_factor_that_vllm_hashes_is_known() -> None:
    """A factor without knowledge would be named but leave the reader without a setting."""
    assert HASHED_FACTORS == set(FACTORS)


@pytest.mark.parametrize(
    ("given", "verdict", "reason"),
    [
        (
            difference("dtype", "torch.bfloat16", "torch.float32"),
            "never",
            "bfloat16 and float32 blocks differ in length",
        ),
        (difference("dtype", "torch.bfloat16", "torch.float16"), "never", "12 of 12 answers 200 and garbage"),
        (difference("model", "org/tiny", "/models/tiny/"), "known_safe", "only then are the blocks the same"),
        (difference("model", "org/tiny", "org/large"), "unknown", "org/tiny and org/large"),
        (difference("cache_dtype", "auto", "fp8"), "never", "auto and fp8"),
        (difference("vllm_version", "0.27.0", "0.27.1"), "unknown", "no check compares that"),
        (difference("is_hma_enabled", "True", "False"), "never", "other layers on each side"),
        (difference("a_factor_of_tomorrow", "1", "2"), "unknown", "nothing is known"),
    ],
    ids=lambda value: value.factor if isinstance(value, Difference) else "",
)
def test_bypass_judgement(given: Difference, verdict: str, reason: str) -> None:
    """The judgement names the values it is about."""
    (item,) = bound(given)
    assert verdict == item.bypass
    assert reason in item.bypass_reason


def test_same_cache_dtype_spelled_differently_is_known_safe() -> None:
    """`auto` and the dtype it resolves to differ in the hash and not in the blocks."""
    given = Difference(
        factor="cache_dtype",
        prefill="auto",
        decode="bfloat16",
        prefill_compared="bfloat16",
        decode_compared="bfloat16",
    )
    (item,) = bound(given)
    assert (True, "known_safe", True) == (item.spelling_only, item.bypass, item.all_bypass_safe)


def test_dtype_under_an_explicit_fp8_cache_is_unknown() -> None:
    """With the cache in fp8 on both sides the model's dtype does not decide the blocks."""
    (item,) = bound(difference("dtype", "torch.bfloat16", "torch.float16"), kv_cache_dtype="fp8_e4m3")
    assert "unknown" == item.bypass


def test_connector_version_follows_the_vllm_version() -> None:
    """A factor that vanishes with another one is marked, so that it is ranked after it."""
    items = bound(
        difference("nixl_connector_version", "7", "5"), difference("vllm_version", "0.28.0", "0.27.0")
    )
    assert {"nixl_connector_version": True, "vllm_version": False} == {
        item.factor: item.follows_another for item in items
    }


def incident(*differences: Difference, **changes: object) -> IncidentFacts:
    """Facts of a hash mismatch with these differences."""
    facts = IncidentFacts(
        verdict="failed_closed",
        differences=list(differences),
        handshake=HandshakeFacts(attempts=2, failed=2, failure_types=["hash_mismatch"]),
    )
    return msgspec.structs.replace(facts, **changes)


SAFE = difference("model", "org/tiny", "/models/tiny")
UNSAFE = difference("dtype", "torch.bfloat16", "torch.float32")


def bypass_remedies(facts: IncidentFacts) -> list[str]:
    """Ids of the causes that offer the bypass as a remedy."""
    found = findings(facts, shipped())
    return [
        finding.id for finding in found for remedy in finding.remedies if "handshake_compat" in remedy.setting
    ]


def test_bypass_is_offered_last_and_with_its_risk_for_a_safe_factor_only() -> None:
    """It comes after every safer remedy, names decode, and says what it takes away."""
    (finding,) = findings(incident(SAFE), shipped())
    bypass = finding.remedies[-1]
    assert "enforce_handshake_compat=false" in bypass.setting
    assert bypass.side.startswith("decode")
    assert "removes the only check" in bypass.risk
    assert [] == finding.not_remedies


def test_bypass_is_not_offered_when_any_factor_forbids_it() -> None:
    """The check is one for all factors: a safe factor beside an unsafe one does not make it safe."""
    assert [] == bypass_remedies(incident(SAFE, UNSAFE))
    assert ["would NOT help here", "must not be used while another factor differs"] == [
        next(
            start
            for start in ("would NOT help here", "must not be used while another factor differs")
            if start in why
        )
        for finding in findings(incident(UNSAFE, SAFE), shipped())
        for why in [finding.not_remedies[0].why]
    ]


def test_bypass_is_not_offered_where_it_is_already_set() -> None:
    """Advice to set what is set would send the reader in a circle."""
    decode = EngineFacts(enforce_handshake_compat=False)
    assert ["hash-factor-model"] == bypass_remedies(incident(SAFE))
    assert [] == bypass_remedies(incident(SAFE, decode=decode))


@pytest.mark.parametrize("factor", sorted(HASHED_FACTORS))
def test_every_factor_becomes_a_named_cause_with_both_values(factor: str) -> None:
    """The cause's id carries the factor's name, its explanation both values, its first remedy the setting."""
    (finding,) = findings(incident(difference(factor, "one", "two")), shipped())
    assert f"hash-factor-{factor}" == finding.id
    assert f"{factor} is one on prefill" in finding.explanation
    assert "two on decode" in finding.explanation
    assert FACTORS[factor].make_equal == finding.remedies[0].setting
