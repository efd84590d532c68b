"""Judges causes on the facts of one incident: which hold, how sure that is, and every sentence filled in.

Pure: the same facts and catalogue give the same findings. Ordering is `ranking`'s business.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from falseok_alerts import factors, templates
from falseok_alerts.catalogue import Catalogue
from falseok_alerts.cause import Cause, Confidence, ConfidenceLevels, EvidenceItem
from falseok_alerts.facts import IncidentFacts
from falseok_alerts.findings import CauseFinding, DifferenceShown, NotRemedy, Point, Remedy
from falseok_alerts.predicates import holds

Document = dict[str, Any]


def findings(facts: IncidentFacts, catalogue: Catalogue) -> list[CauseFinding]:
    """Every cause that holds, unranked (`rank` 0). Fallback causes appear only when nothing else holds."""
    document: Document = msgspec.to_builtins(facts)
    found = [
        finding
        for cause in catalogue.causes
        if not cause.fallback
        for finding in _judge(cause, facts, document, catalogue)
    ]
    if found:
        return found
    return [
        finding
        for cause in catalogue.causes
        if cause.fallback
        for finding in _judge(cause, facts, document, catalogue)
    ]


def judge_cause(cause: Cause, facts: IncidentFacts, catalogue: Catalogue) -> list[CauseFinding]:
    """What one cause says of the facts, fallback or not: used by the cases inside the cause files."""
    return list(_judge(cause, facts, msgspec.to_builtins(facts), catalogue))


def _judge(
    cause: Cause, facts: IncidentFacts, document: Document, catalogue: Catalogue
) -> Iterator[CauseFinding]:
    for bound in _documents(cause, facts, document, catalogue):
        if holds(cause.when, bound):
            yield _finding(cause, bound)


def _documents(
    cause: Cause, facts: IncidentFacts, document: Document, catalogue: Catalogue
) -> Iterator[Document]:
    if cause.for_each is None:
        yield document
        return
    for bound in factors.bind_all(facts.differences, catalogue.factors, document):
        yield {**document, "difference": msgspec.to_builtins(bound)}


def _finding(cause: Cause, document: Document) -> CauseFinding:
    items = [item for item in cause.evidence if holds(item.when, document)]
    score = sum(item.weight for item in items)
    points = _points(cause, items, document)
    return CauseFinding(
        id=templates.fill(cause.id, document),
        rank=0,
        title=templates.fill(cause.title, document),
        confidence=_confidence(score, cause.confidence),
        explanation=templates.fill(cause.explanation, document),
        evidence=[templates.fill(item.text, document) for item in items],
        remedies=_remedies(cause, document),
        not_remedies=_not_remedies(cause, document),
        references=list(cause.references),
        score=sum(point.points for point in points),
        points=points,
        difference=_difference(document) if cause.for_each else None,
        version=cause.version,
    )


def _confidence(score: int, levels: ConfidenceLevels) -> Confidence:
    if score >= levels.certain:
        return "certain"
    return "likely" if score >= levels.likely else "possible"


def _points(cause: Cause, items: list[EvidenceItem], document: Document) -> list[Point]:
    evidence = [Point(points=item.weight, why=templates.fill(item.text, document)) for item in items]
    order = [
        Point(points=item.points, why=templates.fill(item.why, document))
        for item in cause.rank
        if holds(item.when, document)
    ]
    return evidence + order


def _remedies(cause: Cause, document: Document) -> list[Remedy]:
    return [
        Remedy(
            order=spec.order,
            setting=templates.fill(spec.setting, document),
            side=templates.fill(spec.side, document),
            risk=templates.fill(spec.risk, document),
            verify=templates.fill(spec.verify, document),
        )
        for spec in cause.remedies
        if holds(spec.when, document)
    ]


def _not_remedies(cause: Cause, document: Document) -> list[NotRemedy]:
    return [
        NotRemedy(setting=templates.fill(spec.setting, document), why=templates.fill(spec.why, document))
        for spec in cause.not_remedies
        if holds(spec.when, document)
    ]


def _difference(document: Document) -> DifferenceShown:
    difference = document["difference"]
    return DifferenceShown(
        factor=difference["factor"], prefill=difference["prefill"], decode=difference["decode"]
    )
