"""What is said of an incident's causes, ready for JSON: the field names here are the public ones."""

import msgspec

from falseok_alerts.cause import Confidence


class FindingStruct(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the output structs; every field is always written, so that a reader needs no defaults."""


class Remedy(FindingStruct, frozen=True, kw_only=True):
    """One change that helps, safest first: what, on which side, at which risk, and how to see that it did."""

    order: int
    setting: str
    side: str
    risk: str
    verify: str


class NotRemedy(FindingStruct, frozen=True, kw_only=True):
    """A change that would not help here, and why."""

    setting: str
    why: str


class Point(FindingStruct, frozen=True, kw_only=True):
    """A part of a score with its reason; negative points speak against the cause."""

    points: int
    why: str


class DifferenceShown(FindingStruct, frozen=True, kw_only=True):
    """A differing hash factor with both values verbatim."""

    factor: str
    prefill: str
    decode: str


class CauseFinding(FindingStruct, frozen=True, kw_only=True):
    """A cause that holds for an incident. `score` is the sum of `points` and orders the causes; `rank` starts at 1."""

    id: str
    rank: int
    title: str
    confidence: Confidence
    explanation: str
    evidence: list[str]
    remedies: list[Remedy]
    not_remedies: list[NotRemedy]
    references: list[str]
    score: int
    points: list[Point]
    difference: DifferenceShown | None
    version: int
