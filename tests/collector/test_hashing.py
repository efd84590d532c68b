"""Digests and keyed hashes: equal for equal things on both sides, and no more than that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.attributes import KvOffer
from falseok_collector.hashing import KeyedHash, block_digest
from falseok_collector.hooks.scheduler import DeferredHash

GROUPS = st.lists(st.lists(st.integers(0, 2**31)))


@given(GROUPS)
def test_tuples_and_lists_of_the_same_blocks_have_the_same_digest(groups: list[list[int]]) -> None:
    """Prefill holds tuples, decode reads lists out of JSON."""
    assert block_digest(tuple(tuple(group) for group in groups)) == block_digest(groups)


@given(GROUPS, GROUPS)
def test_different_blocks_have_different_digests(one: list[list[int]], other: list[list[int]]) -> None:
    """Order and grouping count, too."""
    assert (one == other) == (block_digest(one) == block_digest(other))


@pytest.mark.parametrize(
    "other", [[[2, 1], [3]], [[1, 2, 3]], [[1], [2, 3]], [[1, 2], [3], []], [[3], [1, 2]]], ids=repr
)
def test_order_and_grouping_change_the_digest(other: list[list[int]]) -> None:
    """The same numbers arranged otherwise are another offer."""
    assert block_digest([[1, 2], [3]]) != block_digest(other)


def test_the_digest_of_a_known_list_never_changes() -> None:
    """Engines of different releases of ours are compared with each other."""
    assert "2ce1506f23766b649ef41e6bdfe0fdbe" == block_digest([[1, 2], [3]])


def test_processes_that_share_a_salt_can_compare() -> None:
    """The same tokens give the same hash under the same salt id."""
    one, other = KeyedHash("pepper"), KeyedHash("pepper")
    assert one.salt_id == other.salt_id
    assert one.of_tokens([1, 2, 3], 3) == other.of_tokens((1, 2, 3), 3)
    assert 32 == len(one.of_tokens([1, 2, 3], 3))


def test_different_salts_have_different_ids_and_hashes() -> None:
    """So that the service says "not comparable" instead of judging."""
    one, other = KeyedHash("pepper"), KeyedHash("salt")
    assert one.salt_id != other.salt_id
    assert one.of_tokens([1], 1) != other.of_tokens([1], 1)


def test_without_a_salt_nobody_can_compare() -> None:
    """A random salt is as good as none."""
    one, other = KeyedHash(), KeyedHash()
    assert one.salt_id != other.salt_id
    assert one.of_tokens([1], 1) != other.of_tokens([1], 1)


def test_the_hash_of_known_tokens_never_changes() -> None:
    """As with digests: releases of ours are compared with each other."""
    keyed = KeyedHash("pepper")
    assert ("72c2e0acba66", "a103f8d76bc2baba4108350f6e33c812") == (
        keyed.salt_id,
        keyed.of_tokens([1, 2, 3], 3),
    )


def test_only_the_first_tokens_count() -> None:
    """Decode has appended to the list what prefill has not seen."""
    keyed = KeyedHash("pepper")
    assert keyed.of_tokens([1, 2], 2) == keyed.of_tokens([1, 2, 3], 2)
    assert keyed.of_tokens([1, 2], 2) != keyed.of_tokens([1, 2, 3], 3)


@pytest.mark.parametrize(("tokens", "length"), [([1, 2], 3), ([], 1), ([1], 0), ([1], -1)])
def test_a_list_shorter_than_asked_for_has_no_hash(tokens: list[int], length: int) -> None:
    """It was changed since the hook saw it, or there was nothing: then nothing is said."""
    assert "" == KeyedHash("pepper").of_tokens(tokens, length)


@given(st.lists(st.integers(0, 2**31), min_size=1), st.lists(st.integers(0, 2**31), min_size=1))
def test_different_tokens_have_different_hashes(one: list[int], other: list[int]) -> None:
    """The hash tells apart what the engine would tell apart."""
    keyed = KeyedHash("pepper")
    assert (one == other) == (keyed.of_tokens(one, len(one)) == keyed.of_tokens(other, len(other)))


def test_a_list_cut_after_the_snapshot_is_not_hashed() -> None:
    """The hook keeps a reference; what the engine did to the list since then must not become evidence."""
    tokens = [1, 2, 3]
    snapshot = DeferredHash(KvOffer(), tokens, 3)
    whole = snapshot.finish(KeyedHash("pepper"))
    del tokens[2:]
    cut = snapshot.finish(KeyedHash("pepper"))
    assert (3, KeyedHash("pepper").of_tokens([1, 2, 3], 3)) == (whole.tokens_hashed, whole.token_ids_hash)
    assert ("", 0, "") == (cut.token_ids_hash, cut.tokens_hashed, cut.salt_id)
