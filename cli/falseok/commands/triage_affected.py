"""`falseok triage affected ID`: every request of one incident, for whoever has to regenerate answers."""

from typing import Annotated

import typer

from falseok.commands.triage_sql import write_rows
from falseok.incident_lookup import find_incident
from falseok.options import CsvOption, DataOption, JsonOption
from falseok.render_rows import Row
from falseok.statements import statement
from falseok.store_choice import connect
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.store import Store

CSV_COLUMNS = (
    "external_id",
    "request_id",
    "trace_id",
    "first_seen_at",
    "verdict",
    "evidence",
    "reason",
    "http_status",
    "delivered",
    "output_tokens",
    "finish_reason",
    "prefill_engine_id",
    "decode_engine_id",
    "explanation",
    "evidence_events",
)
"""The public column order; new columns go at its end."""

TABLE_COLUMNS = ("external_id", "first_seen_at", "http_status", "output_tokens")


def affected(
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="The incident: INC-…, or the beginning of its id.")
    ],
    data: DataOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """List every request of an incident, the first one first.

    \b
    Examples:
      falseok triage affected INC-7F3A2K5Q
      falseok triage affected INC-7F3A2K5Q --csv > regenerate.csv
      falseok triage affected INC-7F3A2K5Q --json | jq -r '.[].external_id'
    """
    with connect(DataDirectory.resolve(data)) as store:
        incident = find_incident(judge(store), identifier)
        rows = affected_rows(store, incident)
    columns = CSV_COLUMNS if as_csv else TABLE_COLUMNS
    write_rows(rows, columns, as_json=as_json, as_csv=as_csv)


def affected_rows(store: Store, incident: Incident) -> list[Row]:
    """The rows of exactly the requests the incident counts. Raises `QueryError`."""
    fingerprint = {
        "verdict": incident.verdict,
        "reason": incident.reason,
        "prefill_group": incident.prefill_engine.group,
        "decode_group": incident.decode_engine.group,
        "model": incident.model,
    }
    return [dict(row) for row in store.query(statement("affected"), fingerprint)]
