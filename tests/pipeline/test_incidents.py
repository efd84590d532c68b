"""Requests that share a fingerprint, and what their configurations differ in."""

from typing import Any

from tests.pipeline.stories import START_MICROS, Engine, Fleet, Story, corrupt, failed_closed, healthy
from tests.pipeline.verdict_cases import EXPLANATION_A, fleet_of

from falseok_pipeline.embedded import EmbeddedStore


def insert(store: EmbeddedStore, lines: list[bytes]) -> None:
    """Store lines."""
    store.insert_events(b"".join(line + b"\n" for line in lines))


def candidates(store: EmbeddedStore) -> list[dict[str, Any]]:
    """All candidates, in the order of their fingerprints."""
    return store.query(
        "SELECT * FROM incident_candidates ORDER BY verdict, reason, prefill_group, decode_group, model"
    )


def recovered(fleet: Fleet, number: int) -> list[bytes]:
    """A failed transfer after which decode computed the prompt itself."""
    story = Story(fleet, number)
    story.prefill()
    story.admit()
    story.wait()
    story.failed_read("transfer_failed", "check")
    story.resume("recompute", marked_failed=True)
    story.finish()
    story.respond()
    return story.lines


def test_a_candidate_says_what_a_person_needs_first(store: EmbeddedStore) -> None:
    """Who, how many, since when, by what evidence, and what share of the pair's traffic."""
    fleet = Fleet()
    insert(
        store,
        [*fleet.configs(), *(line for n in range(1, 13) for line in corrupt(fleet, n)), *healthy(fleet, 20)],
    )
    other = fleet_of(1)
    insert(store, [*other.configs(), *healthy(other, 30), *healthy(other, 31), *corrupt(other, 32)])
    first = candidates(store)[0]
    assert "10.0.0.1:5600" == first["prefill_group"]
    events = first.pop("evidence_events")
    assert 72 == len(events) == len(set(events))
    assert [f"chatcmpl-req-{n}-bbbbbbbb" for n in range(1, 11)] == first.pop("sample_request_ids")
    assert [f"req-{n}" for n in range(1, 11)] == first.pop("sample_external_ids")
    assert {EXPLANATION_A} == set(first.pop("sample_explanations"))
    assert {
        "verdict": "corrupt",
        "reason": "a_missing_kv",
        "prefill_group": "10.0.0.1:5600",
        "decode_group": "10.0.0.2:5700",
        "model": "tiny",
        "evidence": "proven",
        "affected": 12,
        "prefill_engine_ids": ["3689deac-prefill"],
        "decode_engine_ids": ["36c6eafa-decode"],
        "first_seen": START_MICROS + 7_000,
        "last_seen": START_MICROS + 122_000,
        "failure_types": ["handshake_failed"],
        "failure_messages": ["NIXL compatibility hash mismatch"],
        "http_statuses": [200],
        "resume_branches": ["resume"],
        "policies": ["fail"],
        "failed_reads": 12,
        "expected_tokens": 12 * 183,
        "received_bytes": 0,
        "output_tokens": 12 * 16,
        "pair_requests": 13,
        "pair_share": 12 / 13,
        "elsewhere_requests": 3,
        "elsewhere_affected": 1,
    } == first


def test_each_fingerprint_is_a_candidate_of_its_own(store: EmbeddedStore) -> None:
    """Verdict, reason or failure type, pair: what differs in one of them is not one incident."""
    fleet, other = Fleet(), fleet_of(1)
    insert(store, [*fleet.configs(), *other.configs()])
    insert(store, [*corrupt(fleet, 1), *failed_closed(fleet, 2), *recovered(fleet, 3), *corrupt(other, 4)])
    swapped = Story(fleet, 5)
    swapped.prefill()
    swapped.admit(offer_digest="f" * 64)
    swapped.wait()
    swapped.read_end()
    swapped.resume()
    swapped.finish()
    swapped.respond()
    insert(store, swapped.lines)
    assert [
        ("corrupt", "a_missing_kv", "10.0.0.1:5600"),
        ("corrupt", "a_missing_kv", "10.0.1.1:5600"),
        ("corrupt", "b_other_blocks", "10.0.0.1:5600"),
        ("failed_closed", "handshake_failed", "10.0.0.1:5600"),
        ("recovered", "transfer_failed", "10.0.0.1:5600"),
    ] == [(row["verdict"], row["reason"], row["prefill_group"]) for row in candidates(store)]


def test_a_restarted_engine_stays_the_same_incident(store: EmbeddedStore) -> None:
    """The group is the address, not the random engine id: a restart does not page again."""
    before, after = Fleet(), Fleet(decode=Engine("second-start", "10.0.0.2:5700", "x"))
    insert(store, [*before.configs(), *corrupt(before, 1), *after.configs(), *corrupt(after, 2)])
    [row] = candidates(store)
    assert (2, ["36c6eafa-decode", "second-start"]) == (row["affected"], row["decode_engine_ids"])


def test_what_is_not_wrong_is_no_incident(store: EmbeddedStore) -> None:
    """Healthy, unobserved, aborted and rejected requests alone give none."""
    fleet = Fleet()
    insert(store, [*fleet.configs(), *healthy(fleet, 1)])
    story = Story(fleet, 2)
    story.admit()
    story.finish(output_tokens=0, finish_reason="abort")
    insert(store, story.lines)
    assert [] == candidates(store)


def test_a_differing_factor_is_shown_as_it_was_hashed(store: EmbeddedStore) -> None:
    """One row a factor, verbatim on both sides; equal factors and engines that never met give none."""
    fleet = Fleet()
    fleet.decode.dtype, fleet.decode.vllm = "torch.float32", "0.29.0"
    stranger = Engine("stranger", "10.9.9.9:5600", "s", dtype="torch.float16")
    insert(store, [*fleet.configs(), *stranger.config(fleet.tick(), "kv_producer")])
    assert [] == store.query("SELECT * FROM configuration_differences")
    insert(store, [fleet.handshake("failed", failure_type="hash_mismatch")])
    rows = store.query(
        "SELECT factor, prefill_value, decode_value, prefill_compared, decode_compared, prefill_has, decode_has "
        "FROM configuration_differences ORDER BY factor"
    )
    both = {"prefill_has": True, "decode_has": True}
    assert [
        {
            "factor": "dtype",
            "prefill_value": "torch.bfloat16",
            "decode_value": "torch.float32",
            "prefill_compared": "bfloat16",
            "decode_compared": "float32",
        }
        | both,
        {
            "factor": "vllm_version",
            "prefill_value": "0.27.0",
            "decode_value": "0.29.0",
            "prefill_compared": "0.27.0",
            "decode_compared": "0.29.0",
        }
        | both,
    ] == rows


def test_handshakes_of_a_pair_are_summed_up(store: EmbeddedStore) -> None:
    """How many were tried, how many failed, and what they said."""
    fleet = Fleet()
    fleet.decode.dtype = "torch.float32"
    failed = fleet.handshake(
        "failed",
        failure_type="hash_mismatch",
        exception_class="RuntimeError",
        exception_message="hashes differ",
    )
    insert(store, [fleet.handshake(), failed, failed])
    [row] = store.query("SELECT * FROM handshake_pairs")
    assert (2, 1, ["hash_mismatch"], ["hashes differ"]) == (
        row["attempts"],
        row["failures"],
        row["failure_types"],
        row["exception_messages"],
    )
    assert [[fleet.decode.compatibility_hash], [fleet.prefill.compatibility_hash]] == [
        row["local_hashes"],
        row["remote_hashes"],
    ]
