"""`falseok triage show ID`: one incident, or one request's whole story."""

from typing import Annotated

import typer

from falseok.consoles import results, write_json
from falseok.incident_lookup import find_incident, find_requests, is_incident_id
from falseok.options import DataOption, JsonOption, data_argument
from falseok.render_explained import explained_view
from falseok.render_incident import incident_view
from falseok.render_request import request_view
from falseok.request_story import story_of
from falseok.store_choice import connect
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.store import Store


def show(
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="An incident (INC-…) or a request id, client's or engine's.")
    ],
    data: DataOption = None,
    as_json: JsonOption = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add each cause in full: points, sides, checks, references.")
    ] = False,
) -> None:
    """Show an incident (what, who, why, evidence, what to do) or the story of one request.

    Exits with 2 when nothing has this id.

    \b
    Examples:
      falseok triage show INC-7F3A2K5Q
      falseok triage show INC-7F3A2K5Q --explain
      falseok triage show my-request-17 --json
    """
    with connect(DataDirectory.resolve(data)) as store:
        if is_incident_id(identifier):
            incident = find_incident(judge(store), identifier)
            _show_incident(incident, data_argument(data), as_json=as_json, explain=explain)
        else:
            _show_request(store, identifier, as_json=as_json)


def _show_incident(incident: Incident, shown_data: str, *, as_json: bool, explain: bool) -> None:
    if as_json:
        write_json(incident)
        return
    results().print(incident_view(incident, shown_data))
    if explain:
        results().print(explained_view(incident))


def _show_request(store: Store, identifier: str, *, as_json: bool) -> None:
    stories = [story_of(store, request) for request in find_requests(store, identifier)]
    if as_json:
        write_json(stories)
        return
    for story in stories:
        results().print(request_view(story))
