"""`falseok status`: engines, collectors and their hooks, losses, dead letters, lag, and whether a run is up."""

import typer

from falseok.consoles import results, write_json
from falseok.entry import EXIT_CANNOT_JUDGE
from falseok.options import DataOption, JsonOption
from falseok.render_status import status_view
from falseok.status_report import StatusReport, spool_states, with_problems, with_store
from falseok.store_choice import connect
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.errors import StoreMissingError


def status(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show what is seen, what is missing and what was lost.

    Exits with 2 when there is no store yet, else with 0: trouble is told under PROBLEMS.

    \b
    Examples:
      falseok status
      falseok status --data .demo --json | jq .problems
    """
    directory = DataDirectory.resolve(data)
    report = StatusReport(
        data=str(directory.path), run=directory.running(), store=False, spools=spool_states(directory)
    )
    try:
        with connect(directory) as store:
            report = with_store(report, store)
    except StoreMissingError:
        pass
    report = with_problems(report)
    if as_json:
        write_json(report)
    else:
        results().print(status_view(report))
    if not report.store:
        raise typer.Exit(EXIT_CANNOT_JUDGE)
