"""Finds one incident or request by what a person typed. Reads only."""

from collections.abc import Sequence
from typing import Any

from falseok.errors import CliError
from falseok.program import program
from falseok.statements import statement
from falseok_alerts.fingerprint import ID_PREFIX
from falseok_alerts.incident import Incident
from falseok_pipeline.store import Store

LEAST_ID_CHARACTERS = 4
"""Fewer characters after `INC-` than this are a typing error, not an abbreviation."""


def is_incident_id(text: str) -> bool:
    """Whether the text means an incident and not a request."""
    return text.upper().startswith(ID_PREFIX)


def find_incident(incidents: Sequence[Incident], text: str) -> Incident:
    """The incident of this id, or of the only id that begins like it; upper and lower case are the same.

    Raises:
        CliError: none or several fit; the message lists what there is.
    """
    wanted = text.upper()
    long_enough = len(wanted) >= len(ID_PREFIX) + LEAST_ID_CHARACTERS
    found = [
        incident
        for incident in incidents
        if incident.id == wanted or (long_enough and incident.id.startswith(wanted))
    ]
    if len(found) == 1:
        return found[0]
    there_are = ", ".join(incident.id for incident in incidents) or "none"
    problem = "Several incidents begin with" if found else "There is no incident"
    raise CliError(
        f"{problem} {text}. Incidents in this store: {there_are}.",
        hint=f"List them with: {program()} triage incidents",
    )


def find_requests(store: Store, text: str) -> list[dict[str, Any]]:
    """Every judged request with this id, the client's or the engine's.

    Raises:
        CliError: no answered request has it.
    """
    rows = store.query(statement("requests_by_id"), {"id": text})
    if not rows:
        raise CliError(
            f"No answered request in this store has the id {text}.",
            hint="Ids are the client's X-Request-Id or the engine's own; an incident's id begins with INC-.",
        )
    return rows
