"""One incident as everybody sees it: the page, the terminal, the report and `--json` all show this struct.

Composed from facts and catalogue alone; where the facts come from is `gather`'s business.
"""

import msgspec

from falseok_alerts import evaluation
from falseok_alerts.catalogue import Catalogue
from falseok_alerts.evidence_lines import evidence_lines, headline
from falseok_alerts.facts import (
    Difference,
    EngineFacts,
    HandshakeFacts,
    IncidentFacts,
    ReceiveFacts,
    ShareFacts,
)
from falseok_alerts.findings import CauseFinding
from falseok_alerts.fingerprint import Fingerprint, incident_id
from falseok_alerts.ranking import ranked

VERDICTS_BY_SEVERITY = (
    "corrupt",
    "unprotected",
    "failed_closed",
    "stalled",
    "recovered",
    "not_disaggregated",
    "aborted",
    "rejected",
    "unobserved",
    "local",
    "healthy",
)
"""Most severe first; a verdict not listed here comes last."""

EVIDENCE_BY_STRENGTH = ("proven", "strong", "suspected", "none")
"""Surest first."""


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """An incident with its ranked causes. Times are RFC 3339 in UTC with microseconds; every field is always there."""

    id: str
    verdict: str
    evidence: str
    reason: str
    headline: str
    affected: int
    model: str
    privacy: bool
    prefill_engine: EngineFacts
    decode_engine: EngineFacts
    causes: list[CauseFinding]
    first_seen: str
    last_seen: str
    evidence_lines: list[str]
    differences: list[Difference]
    handshake: HandshakeFacts
    receive: ReceiveFacts
    share: ShareFacts
    sample_requests: list[str]


def compose(facts: IncidentFacts, catalogue: Catalogue) -> Incident:
    """The incident of these facts: id, ranked causes, and the sentences everybody shows."""
    return Incident(
        id=incident_id(fingerprint_of(facts)),
        verdict=facts.verdict,
        evidence=facts.evidence,
        reason=facts.reason,
        headline=headline(facts),
        affected=facts.affected,
        model=facts.model,
        privacy=facts.privacy,
        prefill_engine=facts.prefill,
        decode_engine=facts.decode,
        causes=ranked(evaluation.findings(facts, catalogue)),
        first_seen=facts.first_seen,
        last_seen=facts.last_seen,
        evidence_lines=evidence_lines(facts),
        differences=facts.differences,
        handshake=facts.handshake,
        receive=facts.receive,
        share=facts.share,
        sample_requests=facts.sample_requests,
    )


def fingerprint_of(facts: IncidentFacts) -> Fingerprint:
    """The identity of the incident: its reason, or the failure type where the verdict has no reason."""
    return Fingerprint(
        verdict=facts.verdict,
        reason=facts.reason or facts.failure_type,
        prefill_group=facts.prefill.group,
        decode_group=facts.decode.group,
        model=facts.model,
    )


def by_severity(incidents: list[Incident]) -> list[Incident]:
    """Most severe first: verdict, privacy, strength of evidence, affected requests; ties by id."""
    return sorted(
        incidents,
        key=lambda incident: (
            _place(incident.verdict, VERDICTS_BY_SEVERITY),
            not incident.privacy,
            _place(incident.evidence, EVIDENCE_BY_STRENGTH),
            -incident.affected,
            incident.id,
        ),
    )


def _place(value: str, order: tuple[str, ...]) -> int:
    return order.index(value) if value in order else len(order)
