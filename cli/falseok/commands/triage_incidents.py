"""`falseok triage incidents`: what is wrong in this store, most severe first."""

from typing import Annotated, Any

import typer

from falseok.consoles import results, write_json
from falseok.options import DataOption, JsonOption, data_argument
from falseok.render_incidents import incidents_view
from falseok.statements import statement
from falseok.store_choice import connect
from falseok_alerts.judge import judge
from falseok_pipeline.data_directory import DataDirectory

EXIT_FOUND = 1


def incidents(
    data: DataOption = None,
    as_json: JsonOption = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when there is an incident (else always 0).")
    ] = False,
) -> None:
    """List incidents, most severe first, each with its first causes.

    \b
    Examples:
      falseok triage incidents
      falseok triage incidents --data .demo --json | jq '.[0].causes[0].id'
      falseok triage incidents --exit-code && echo "nothing is wrong"
    """
    with connect(DataDirectory.resolve(data)) as store:
        found = judge(store)
        if as_json:
            write_json(found)
        elif found:
            results().print(incidents_view(found, data_argument(data)))
        else:
            results().print(_nothing_found(store.query(statement("status_requests"))))
    if found and exit_code:
        raise typer.Exit(EXIT_FOUND)


def _nothing_found(totals: list[dict[str, Any]]) -> str:
    """No incident is not the same as health: say what was judged, and how."""
    if not totals:
        return "No incident, and no request was seen at all. See: falseok status"
    counts = ", ".join(f"{row['requests']:,} {row['verdict']}" for row in totals)
    return f"No incident. Requests by verdict: {counts}."
