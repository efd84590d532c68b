"""When to judge again, and what of it is news."""

import msgspec
from tests.alerts.incident_facts import DTYPE_MISMATCH

from falseok.judging import IncidentNews, JudgingPace
from falseok_alerts.catalogue import shipped
from falseok_alerts.incident import compose

INCIDENT = compose(DTYPE_MISMATCH, shipped())


def test_the_first_judgement_is_due_at_once() -> None:
    """Even with nothing stored: a store from an earlier run may hold incidents."""
    assert JudgingPace().is_due(0, 0.0)


def test_nothing_new_is_not_judged_again() -> None:
    """Without new events the answer cannot change."""
    pace = JudgingPace()
    pace.judged(100, 0.0, 0.1)
    assert not pace.is_due(100, 1000.0)
    assert pace.is_due(101, 1000.0)


def test_slow_judging_is_done_rarely() -> None:
    """A judgement that takes 5 s is followed by 50 s of rest, a fast one by two seconds."""
    pace = JudgingPace()
    pace.judged(100, 0.0, 5.0)
    assert [False, True] == [pace.is_due(101, now) for now in (54.9, 55.0)]
    pace.judged(101, 60.0, 60.01)
    assert [False, True] == [pace.is_due(102, now) for now in (62.0, 62.01)]


def test_an_incident_is_said_once_and_again_when_its_evidence_changes() -> None:
    """More affected requests are no news; another level of evidence is."""
    news = IncidentNews(" --data /somewhere")
    [line] = news.lines([INCIDENT])
    assert line.startswith(f"new incident: {INCIDENT.id} CORRUPT, PROVEN")
    assert line.endswith(f"(falseok triage show {INCIDENT.id} --data /somewhere)")
    assert [] == news.lines([msgspec.structs.replace(INCIDENT, affected=99)])
    [line] = news.lines([msgspec.structs.replace(INCIDENT, evidence="strong")])
    assert line.startswith("evidence changed: ")
