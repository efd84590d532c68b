"""When the running service judges again, and what is new since it last did. Knows no terminal and no thread."""

from collections.abc import Iterable

from falseok_alerts.incident import Incident

LEAST_SECONDS_BETWEEN = 2.0
REST_FACTOR = 10.0
"""Judging may take at most one part in eleven of the time, however large the store grows."""


def rest_seconds(judging_seconds: float) -> float:
    """How long not to judge after judging took so long."""
    return max(LEAST_SECONDS_BETWEEN, REST_FACTOR * judging_seconds)


class JudgingPace:
    """Judge when events came in, never more often than the store can bear."""

    def __init__(self) -> None:
        self._judged_events = -1
        self._next_seconds = 0.0

    def is_due(self, events_stored: int, now_seconds: float) -> bool:
        """Whether something new was stored and enough time has passed."""
        return events_stored != self._judged_events and now_seconds >= self._next_seconds

    def judged(self, events_stored: int, began_seconds: float, ended_seconds: float) -> None:
        """Note that the store was judged when it held `events_stored` events, and how long that took."""
        self._judged_events = events_stored
        self._next_seconds = ended_seconds + rest_seconds(ended_seconds - began_seconds)


class IncidentNews:
    """Says each incident once, and again when its evidence level changed. `data_argument` ends the shown command."""

    def __init__(self, data_argument: str = "") -> None:
        self._data_argument = data_argument
        self._said: dict[str, str] = {}

    def lines(self, incidents: Iterable[Incident]) -> list[str]:
        """What is new, one line an incident."""
        news = [
            self._line(incident) for incident in incidents if self._said.get(incident.id) != incident.evidence
        ]
        self._said.update({incident.id: incident.evidence for incident in incidents})
        return news

    def _line(self, incident: Incident) -> str:
        word = "evidence changed" if incident.id in self._said else "new incident"
        return (
            f"{word}: {incident.id} {incident.verdict.upper()}, {incident.evidence.upper()}  {incident.headline}"
            f"  (falseok triage show {incident.id}{self._data_argument})"
        )
