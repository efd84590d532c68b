"""Which hash factors of two engines differ, and which only seem to."""

import msgspec
import pytest

from falseok_alerts.differences import differences_between
from falseok_alerts.rows import EngineRow


def engine(factors: dict[str, str], compared: dict[str, str] | None = None) -> EngineRow:
    """An engine known by its factors alone; without `compared` they are their own normal form."""
    return EngineRow(
        engine_id="e",
        group="g",
        hosts=[],
        role="",
        version="",
        model="",
        dtype="",
        kv_cache_dtype="",
        compatibility_hash="",
        enforce_handshake_compat=None,
        reports_failed_receives=None,
        hybrid_memory_allocator=None,
        kv_load_failure_policy="",
        factors=factors,
        factors_compared=factors if compared is None else compared,
        has_config=True,
        first_seen=0,
        last_seen=0,
    )


def names(prefill: EngineRow | None, decode: EngineRow | None) -> list[str]:
    """Names of the differing factors."""
    return [difference.factor for difference in differences_between(prefill, decode)]


def test_equal_factors_differ_in_nothing() -> None:
    """The common case."""
    assert [] == names(engine({"dtype": "x", "head_size": "64"}), engine({"dtype": "x", "head_size": "64"}))


def test_differing_factors_come_by_name_with_verbatim_and_compared_values() -> None:
    """Display shows what the engine hashed, judging uses the normal form."""
    prefill = engine({"model": "a", "dtype": "torch.bfloat16"}, {"model": "a", "dtype": "bfloat16"})
    decode = engine({"model": "b", "dtype": "torch.float32"}, {"model": "b", "dtype": "float32"})
    dtype, model = differences_between(prefill, decode)
    assert ("dtype", "torch.bfloat16", "torch.float32") == (dtype.factor, dtype.prefill, dtype.decode)
    assert ("bfloat16", "float32") == (dtype.prefill_compared, dtype.decode_compared)
    assert "model" == model.factor


def test_default_that_follows_another_factor_is_no_difference_of_its_own() -> None:
    """`cache_dtype auto` is hashed as `auto` on both sides, whatever it resolves to."""
    prefill = engine({"cache_dtype": "auto"}, {"cache_dtype": "bfloat16"})
    decode = engine({"cache_dtype": "auto"}, {"cache_dtype": "float32"})
    assert [] == names(prefill, decode)


def test_mere_spelling_differs_because_it_breaks_the_hash() -> None:
    """`auto` against the same dtype spelled out means the same and hashes differently."""
    prefill = engine({"cache_dtype": "auto"}, {"cache_dtype": "bfloat16"})
    decode = engine({"cache_dtype": "bfloat16"}, {"cache_dtype": "bfloat16"})
    assert ["cache_dtype"] == names(prefill, decode)


def test_factor_of_one_side_only_differs() -> None:
    """Versions hash different sets of factors; the one that lacks it is shown as having none."""
    [difference] = differences_between(engine({"a": "1"}), engine({"a": "1", "transfer_mode": "pull"}))
    assert ("transfer_mode", "", "pull") == (difference.factor, difference.prefill, difference.decode)


def test_values_known_only_in_normal_form_are_compared_in_it() -> None:
    """An engine seen through its log has no verbatim values."""
    prefill = engine({"dtype": "torch.bfloat16"}, {"dtype": "bfloat16"})
    assert [] == names(prefill, engine({}, {"dtype": "bfloat16"}))
    assert ["dtype"] == names(prefill, engine({}, {"dtype": "float32"}))


@pytest.mark.parametrize("missing", [None, engine({})], ids=["no engine", "no factors"])
def test_unknown_side_differs_in_nothing(missing: EngineRow | None) -> None:
    """Missing configuration is no difference, on either side."""
    known = engine({"dtype": "x"})
    assert [[], []] == [names(missing, known), names(known, missing)]


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_what_a_log_does_not_show_is_no_difference(side: str) -> None:
    """A log shows some factors only: what just the other side's collector reported is compared with nothing."""
    hooked = engine({"dtype": "bfloat16", "num_kv_heads": "8"})
    logged = msgspec.structs.replace(engine({"dtype": "float32"}), from_log=True)
    pair = (logged, hooked) if side == "prefill" else (hooked, logged)
    assert ["dtype"] == names(*pair)
