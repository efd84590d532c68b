"""One incident composed from its facts."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.alerts.incident_facts import DTYPE_MISMATCH

from falseok_alerts.catalogue import shipped
from falseok_alerts.facts import EngineFacts, HandshakeFacts, IncidentFacts
from falseok_alerts.fingerprint import Fingerprint, incident_id
from falseok_alerts.incident import Incident, by_severity, compose
from falseok_alerts.ranking import ranked

INCIDENT = compose(DTYPE_MISMATCH, shipped())

JSON_FIELDS = {
    "id",
    "verdict",
    "evidence",
    "affected",
    "prefill_engine",
    "decode_engine",
    "causes",
    "first_seen",
    "last_seen",
}
"""What the issue promises a machine reader."""


def test_json_has_the_promised_fields() -> None:
    """Names are public: a script at three in the morning reads them."""
    document = msgspec.to_builtins(INCIDENT)
    assert set(document) >= JSON_FIELDS
    cause = document["causes"][0]
    assert set(cause) >= {"id", "rank", "explanation", "remedies", "confidence", "evidence", "references"}
    assert {"order", "setting", "side", "risk", "verify"} == set(cause["remedies"][0])


def test_first_cause_names_dtype_with_both_values_and_the_second_the_open_failure() -> None:
    """What differs comes first, what hid it second, and both are certain here."""
    first, second = INCIDENT.causes
    assert ("hash-factor-dtype", 1, "certain") == (first.id, first.rank, first.confidence)
    assert "torch.bfloat16 on prefill" in first.explanation
    assert "torch.float32 on decode" in first.explanation
    assert ("hma-receive-failure-not-propagated", 2, "certain") == (second.id, second.rank, second.confidence)
    assert "fails open" in second.title


def test_remedies_come_in_the_order_of_safety() -> None:
    """Equal settings first, an upgrade of both together second, the bypass never for dtype."""
    first = INCIDENT.causes[0]
    assert ["set the same --dtype on both engines"] == [first.remedies[0].setting]
    assert "0.30.0" in first.remedies[1].setting
    assert 2 == len(first.remedies)
    assert "bfloat16 and float32 blocks differ in length" in first.not_remedies[0].why


def test_evidence_lines_say_what_the_events_show() -> None:
    """Handshake with both hashes, expected against received tokens, and the policy nobody honoured."""
    assert [
        "handshake failed 32/32 (hash 51430df9 ≠ 0dfe775a)",
        "receive failed for 32/32 requests (handshake_failed)",
        "decode resumed with 183 expected, 0 received tokens",
        'policy "fail" not honoured',
    ] == INCIDENT.evidence_lines
    assert "32 requests answered 200 with corrupted output" == INCIDENT.headline


def test_missing_facts_leave_no_half_sentence() -> None:
    """Lines whose facts are unknown are left out; the fallback cause says what is missing."""
    bare = compose(IncidentFacts(verdict="corrupt", evidence="proven", affected=1), shipped())
    assert [] == bare.evidence_lines
    assert "1 request answered with corrupted output" == bare.headline
    assert ["unknown"] == [cause.id for cause in bare.causes]
    assert any("configuration of prefill is missing" in line for line in bare.causes[0].evidence)


def test_id_has_the_shape_of_a_dedup_key() -> None:
    """`INC-` and eight base32 characters."""
    assert re.fullmatch(r"INC-[A-Z2-7]{8}", INCIDENT.id)


def test_id_is_the_same_after_a_restart_and_with_later_evidence() -> None:
    """Engine ids, counts, times, evidence level and causes are no part of the identity."""
    later = msgspec.structs.replace(
        DTYPE_MISMATCH,
        evidence="strong",
        affected=9000,
        last_seen="2026-08-15T00:00:00.000000Z",
        decode=msgspec.structs.replace(DTYPE_MISMATCH.decode, engine_id="another", version="0.29.0"),
        differences=[],
        handshake=HandshakeFacts(),
    )
    assert INCIDENT.id == compose(later, shipped()).id


def test_id_is_pinned() -> None:
    """The scheme may only change together with its version: pagers hold these ids."""
    fingerprint = Fingerprint(
        verdict="corrupt", reason="a_missing_kv", prefill_group="p:5600", decode_group="d:5700", model="tiny"
    )
    assert "INC-TUCIR37Z" == incident_id(fingerprint)


@given(parts=st.lists(st.text(max_size=4), min_size=5, max_size=5, unique=True))
def test_parts_of_the_fingerprint_cannot_be_confused(parts: list[str]) -> None:
    """Moving text from one part to the next gives another id."""
    names = ("verdict", "reason", "prefill_group", "decode_group", "model")
    one = Fingerprint(**dict(zip(names, parts, strict=True)))
    two = Fingerprint(**dict(zip(names, parts[1:] + parts[:1], strict=True)))
    assert incident_id(one) != incident_id(two)


def other(**changes: object) -> Incident:
    """The incident with some of its facts changed."""
    return compose(msgspec.structs.replace(DTYPE_MISMATCH, **changes), shipped())


def test_most_severe_incident_comes_first() -> None:
    """Verdict before privacy before evidence before the number of requests."""
    closed = other(verdict="failed_closed", affected=10_000)
    private = other(privacy=True, affected=1, reason="other_blocks")
    strong = other(evidence="strong", affected=500, model="large")
    odd = other(verdict="never heard of", affected=10**6)
    assert [private.id, INCIDENT.id, strong.id, closed.id, odd.id] == [
        incident.id for incident in by_severity([odd, strong, closed, INCIDENT, private])
    ]


def test_every_point_of_a_score_has_a_reason() -> None:
    """The order of causes can be explained from the output alone."""
    for cause in INCIDENT.causes:
        assert cause.score == sum(point.points for point in cause.points)
        assert all(point.why for point in cause.points)


@pytest.mark.parametrize("turned", [False, True])
def test_ranking_does_not_depend_on_the_order_of_the_input(turned: bool) -> None:
    """Equal scores are ordered by id, ranks count from one."""
    causes = [
        msgspec.structs.replace(INCIDENT.causes[0], id=name, score=7, rank=0) for name in ("b", "a", "c")
    ]
    found = ranked(reversed(causes) if turned else causes)
    assert [("a", 1), ("b", 2), ("c", 3)] == [(cause.id, cause.rank) for cause in found]


def test_failed_closed_of_a_sound_version_needs_no_upgrade() -> None:
    """On a version that fails closed the differing factor is the only cause and equality the only remedy."""
    decode = EngineFacts(
        version="0.32.0", reports_failed_receives=True, hybrid_memory_allocator=True, group="d"
    )
    incident = other(verdict="failed_closed", decode=decode)
    assert ["hash-factor-dtype"] == [cause.id for cause in incident.causes]
    assert ["set the same --dtype on both engines"] == [
        remedy.setting for remedy in incident.causes[0].remedies
    ]
    assert 'policy "fail" honoured' in incident.evidence_lines
