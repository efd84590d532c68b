"""What a cause or a factor must satisfy beyond its types: facts that exist, cases of every kind, remedies in order."""

from collections.abc import Iterator, Mapping

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from falseok_alerts import predicates, templates
from falseok_alerts.cause import Cause, CauseTest
from falseok_alerts.factors import BoundDifference, Factor
from falseok_alerts.facts import IncidentFacts
from falseok_alerts.lookup import paths_of
from falseok_alerts.predicates import Condition

INCIDENT_PATHS = frozenset(paths_of(IncidentFacts))
"""Facts every cause may name."""

KNOWN_PATHS = INCIDENT_PATHS | frozenset(paths_of(BoundDifference, "difference."))
"""Facts a cause with `for_each: differences` may name as well."""

_BOUND_SUFFIX = "-{difference.factor}"


def problems_of_cause(cause: Cause, stem: str, paths: frozenset[str] = KNOWN_PATHS) -> Iterator[str]:
    """Every mistake in one cause, each starting with its path in the file. `stem` is the file name without suffix."""
    known = paths if cause.for_each else INCIDENT_PATHS
    if cause.id.removesuffix(_BOUND_SUFFIX) != stem:
        yield f"id: must be the file's name, {stem!r}"
    if cause.id.endswith(_BOUND_SUFFIX) != (cause.for_each is not None):
        yield "id: ends with -{difference.factor} exactly when for_each is set"
    if cause.confidence.certain <= cause.confidence.likely:
        yield "confidence: certain must need more points than likely"
    yield from _problems_of_versions(cause)
    yield from _problems_of_conditions(cause, known)
    yield from _problems_of_texts(cause, known)
    yield from _problems_of_remedies(cause)
    yield from _problems_of_tests(cause.tests)


def problems_of_factor(factor: Factor, factors: Mapping[str, Factor]) -> Iterator[str]:
    """Every mistake in one factor; the caller puts the factor's name before it."""
    if factor.follows and factor.follows not in factors:
        yield f".follows: there is no factor {factor.follows!r}"
    if factor.bypass[-1].when != predicates.ALWAYS:
        yield ".bypass: the last rule must hold always, so that there is an answer for every value"
    for index, rule in enumerate(factor.bypass):
        path = f".bypass[{index}]"
        if rule.when != predicates.ALWAYS:
            yield from predicates.problems_of(rule.when, KNOWN_PATHS, f"{path}.when")
        yield from templates.problems_of(rule.reason, KNOWN_PATHS, f"{path}.reason")


def _problems_of_versions(cause: Cause) -> Iterator[str]:
    try:
        SpecifierSet(cause.versions)
    except InvalidSpecifier as error:
        yield f"versions: {error}"


def _problems_of_conditions(cause: Cause, known: frozenset[str]) -> Iterator[str]:
    conditions: list[tuple[str, Condition]] = [("when", cause.when)]
    conditions += [(f"evidence[{i}].when", item.when) for i, item in enumerate(cause.evidence)]
    conditions += [(f"rank[{i}].when", item.when) for i, item in enumerate(cause.rank)]
    conditions += [(f"remedies[{i}].when", item.when) for i, item in enumerate(cause.remedies)]
    conditions += [(f"not_remedies[{i}].when", item.when) for i, item in enumerate(cause.not_remedies)]
    for path, condition in conditions:
        if condition != predicates.ALWAYS:
            yield from predicates.problems_of(condition, known, path)


def _problems_of_texts(cause: Cause, known: frozenset[str]) -> Iterator[str]:
    texts = [("title", cause.title), ("explanation", cause.explanation)]
    texts += [(f"evidence[{i}].text", item.text) for i, item in enumerate(cause.evidence)]
    texts += [(f"rank[{i}].why", item.why) for i, item in enumerate(cause.rank)]
    for i, remedy in enumerate(cause.remedies):
        fields = ("setting", "side", "risk", "verify")
        texts += [(f"remedies[{i}].{name}", getattr(remedy, name)) for name in fields]
    for i, not_remedy in enumerate(cause.not_remedies):
        texts += [(f"not_remedies[{i}].{name}", getattr(not_remedy, name)) for name in ("setting", "why")]
    for path, text in texts:
        yield from templates.problems_of(text, known, path)


def _problems_of_remedies(cause: Cause) -> Iterator[str]:
    orders = [remedy.order for remedy in cause.remedies]
    if orders != sorted(set(orders)):
        yield "remedies: order must rise from remedy to remedy"
    if not cause.remedies and not cause.fallback:
        yield "remedies: a cause without a remedy leaves the reader alone"


def _problems_of_tests(tests: list[CauseTest]) -> Iterator[str]:
    for kind in ("positive", "negative", "near_miss"):
        if not any(test.kind == kind for test in tests):
            yield f"tests: needs at least one {kind} case"
    for index, test in enumerate(tests):
        try:
            msgspec.convert(test.facts, IncidentFacts)
        except msgspec.ValidationError as error:
            yield f"tests[{index}].facts: {error}"
