"""The shape of a cause file. One YAML per cause; the struct fields are the contract, unknown fields are refused.

Must not know where the files lie (see `catalogue`) nor how causes are judged (see `evaluation`).
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from falseok_alerts.predicates import ALWAYS, Condition

Status = Literal["experimental", "stable", "deprecated"]
CaseKind = Literal["positive", "negative", "near_miss"]
Confidence = Literal["certain", "likely", "possible"]

Sentence = Annotated[str, Meta(min_length=10)]
_Points = Annotated[int, Meta(ge=-100, le=100)]


class CatalogueStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything read from the catalogue's files."""


class EvidenceItem(CatalogueStruct, frozen=True, kw_only=True):
    """One thing that speaks for (or against) a cause: shown and counted only when `when` holds."""

    weight: _Points
    when: Condition
    text: Sentence


class RankItem(CatalogueStruct, frozen=True, kw_only=True):
    """Points that order causes without making any of them surer: what to look at first, and why."""

    points: _Points
    why: Sentence
    when: Condition = ALWAYS


class ConfidenceLevels(CatalogueStruct, frozen=True, kw_only=True):
    """From how many points of evidence a cause is called certain or likely; below that it is possible."""

    certain: Annotated[int, Meta(ge=1)]
    likely: Annotated[int, Meta(ge=1)]


class RemedySpec(CatalogueStruct, frozen=True, kw_only=True):
    """One change that helps. `order` is the order of safety, the safest first; `side` is who has to change it."""

    order: Annotated[int, Meta(ge=1)]
    setting: Sentence
    side: Annotated[str, Meta(min_length=4)]
    risk: Annotated[str, Meta(min_length=4)]
    verify: Sentence
    when: Condition = ALWAYS


class NotRemedySpec(CatalogueStruct, frozen=True, kw_only=True):
    """A change that circulates and would not help here, with the reason."""

    setting: Annotated[str, Meta(min_length=4)]
    why: Sentence
    when: Condition = ALWAYS


class CauseTest(CatalogueStruct, frozen=True, kw_only=True):
    """Facts and what the cause must say of them. Without `expect`, a positive case expects the cause's own id."""

    name: Sentence
    kind: CaseKind
    facts: dict[str, Any]
    expect: list[str] | None = None
    confidence: Confidence | None = None


class Cause(CatalogueStruct, frozen=True, kw_only=True):
    """A cause: when it holds, how sure that makes us, what to say and what to do.

    `for_each: differences` makes one cause of it for every differing hash factor, bound to `difference`.
    `fallback: true` is considered only when no other cause holds.
    `rank` items are added to the evidence when causes are ordered, never to the confidence.
    """

    id: Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*(-\{difference\.factor\})?$")]
    title: Sentence
    version: Annotated[int, Meta(ge=1)]
    status: Status
    explains: Sentence
    for_each: Literal["differences"] | None = None
    fallback: bool = False
    versions: str = ""
    when: Condition
    evidence: Annotated[list[EvidenceItem], Meta(min_length=1)]
    confidence: ConfidenceLevels
    rank: list[RankItem] = []
    explanation: Sentence
    remedies: list[RemedySpec] = []
    not_remedies: list[NotRemedySpec] = []
    references: list[Annotated[str, Meta(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]] = []
    tests: list[CauseTest]
