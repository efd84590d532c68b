"""Every cause against the cases it carries, and every part of its predicate against being idle."""

from collections.abc import Iterator

import msgspec
import pytest

from falseok_alerts.catalogue import Catalogue, shipped
from falseok_alerts.cause import Cause, CauseTest
from falseok_alerts.evaluation import judge_cause
from falseok_alerts.facts import IncidentFacts
from falseok_alerts.predicates import ALWAYS, Condition

CATALOGUE = shipped()
NEVER = Condition(not_=ALWAYS)
CASES = [
    pytest.param(cause, case, id=f"{cause.id}: {case.name}")
    for cause in CATALOGUE.causes
    for case in cause.tests
]


def expected_ids(cause: Cause, case: CauseTest) -> list[str]:
    """What the case demands: its `expect`, else the cause's own id for a positive case and nothing otherwise."""
    if case.expect is not None:
        return case.expect
    return [cause.id] if case.kind == "positive" else []


def said(cause: Cause, case: CauseTest, catalogue: Catalogue = CATALOGUE) -> list[str]:
    """The ids the cause gives for the facts of the case."""
    facts = msgspec.convert(case.facts, IncidentFacts)
    return [finding.id for finding in judge_cause(cause, facts, catalogue)]


def is_caught(mutant: Cause) -> bool:
    """Whether any case of the cause fails for the mutant."""
    return any(expected_ids(mutant, case) != said(mutant, case) for case in mutant.tests)


def leaves(condition: Condition) -> Iterator[Condition]:
    """Every comparison inside a condition."""
    parts = [*(condition.all or []), *(condition.any or []), *([condition.not_] if condition.not_ else [])]
    if condition.fact is not None:
        yield condition
    for part in parts:
        yield from leaves(part)


def replaced(condition: Condition, old: Condition, new: Condition) -> Condition:
    """The condition with one comparison (found by identity) exchanged."""
    if condition is old:
        return new
    return msgspec.structs.replace(
        condition,
        all=None if condition.all is None else [replaced(part, old, new) for part in condition.all],
        any=None if condition.any is None else [replaced(part, old, new) for part in condition.any],
        not_=None if condition.not_ is None else replaced(condition.not_, old, new),
    )


MUTANTS = [
    pytest.param(cause, leaf, new, id=f"{cause.id}: {leaf.fact} {leaf.op} {leaf.value} -> {name}")
    for cause in CATALOGUE.causes
    for leaf in leaves(cause.when)
    for name, new in (("always", ALWAYS), ("never", NEVER))
]


@pytest.mark.parametrize(("cause", "case"), CASES)
def test_case(cause: Cause, case: CauseTest) -> None:
    """The cause says of the facts what its own case demands, as surely as the case demands."""
    facts = msgspec.convert(case.facts, IncidentFacts)
    found = judge_cause(cause, facts, CATALOGUE)
    assert expected_ids(cause, case) == [finding.id for finding in found]
    if case.confidence is not None:
        assert {case.confidence} == {finding.confidence for finding in found}


@pytest.mark.parametrize("case_kind", ["positive", "negative", "near_miss"])
@pytest.mark.parametrize("cause", CATALOGUE.causes, ids=lambda cause: cause.id)
def test_positive_cases_expect_something_and_others_nothing(cause: Cause, case_kind: str) -> None:
    """A case cannot be named near miss and expect the cause all the same."""
    for case in (case for case in cause.tests if case.kind == case_kind):
        assert (case_kind == "positive") is bool(expected_ids(cause, case)), case.name


@pytest.mark.parametrize("new", [ALWAYS, NEVER], ids=["always", "never"])
@pytest.mark.parametrize("cause", CATALOGUE.causes, ids=lambda cause: cause.id)
def test_neutralised_predicate_is_caught(cause: Cause, new: Condition) -> None:
    """A cause whose predicate was emptied fails one of its own cases."""
    assert is_caught(msgspec.structs.replace(cause, when=new))


@pytest.mark.parametrize(("cause", "leaf", "new"), MUTANTS)
def test_every_comparison_carries_load(cause: Cause, leaf: Condition, new: Condition) -> None:
    """Switching a single comparison off, either way, fails one of the cause's own cases."""
    assert is_caught(msgspec.structs.replace(cause, when=replaced(cause.when, leaf, new)))


@pytest.mark.parametrize(("cause", "case"), [case for case in CASES if case.values[1].kind == "positive"])  # type: ignore[union-attr]
def test_sentences_of_a_positive_case_are_whole(cause: Cause, case: CauseTest) -> None:
    """Every sentence is filled: no braces are left, and every remedy has setting, side, risk and a way to verify."""
    for finding in judge_cause(cause, msgspec.convert(case.facts, IncidentFacts), CATALOGUE):
        text = msgspec.json.encode(msgspec.structs.replace(finding, difference=None, points=[])).decode()
        assert "{difference" not in text
        assert all(msgspec.structs.astuple(remedy) for remedy in finding.remedies)
