"""`falseok lab tour`: the demo's incident live: start a pair, drive it, fold, show the incident, end the pair."""

import time
from pathlib import Path

from falseok.consoles import progress, results
from falseok.demo_directory import prepared
from falseok.entry import installed_version
from falseok.lab_options import (
    CacheOption,
    FaultOption,
    ModelOption,
    RequestsOption,
    VllmOption,
    cache_directory,
)
from falseok.lab_progress import LabProgress
from falseok.options import DataOption, data_argument
from falseok.render_answers import answer_line, answers_summary
from falseok.render_incident import incident_view
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_lab import pair
from falseok_lab.answers import Answer
from falseok_lab.drive import DriveSettings, drive
from falseok_lab.pair import PairSettings
from falseok_lab.processes import interruptible_by_sigterm, undisturbed
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service

TOUR_NAME = "tour"
DEFAULT_DIRECTORY = ".lab"
"""Beside where the tour runs, so that its events do not mix with anybody's real ones."""


def tour(
    vllm: VllmOption = "0.27.0",
    model: ModelOption = "tiny",
    fault: FaultOption = "dtype-mismatch",
    requests: RequestsOption = 32,
    cache: CacheOption = None,
    data: DataOption = None,
) -> None:
    """Start a real pair that goes wrong, send requests through it, show the incident, end the pair.

    The first time builds the engine's environment: about 12 GB of disk and a few minutes. The events go to --data,
    else to .lab here; that directory is emptied first, but only if a tour or the demo made it.

    \b
    Examples:
      falseok lab tour
      falseok lab tour --vllm 0.32.0
    """
    path = data or Path(DEFAULT_DIRECTORY)
    directory = DataDirectory(path.absolute())
    settings = PairSettings(
        name=TOUR_NAME,
        data=directory.path,
        cache=cache_directory(DataDirectory.resolve(None), cache),
        vllm=vllm,
        model=model,
        fault=fault,
    )
    with LabProgress(progress(), time.monotonic) as reporter:
        _end_earlier_tour(directory, reporter)
        prepared(directory.path)
        answers = _driven(settings, requests, reporter)
    results().print(answers_summary(answers))
    incidents = _judged(directory)
    for incident in incidents:
        results().print(incident_view(incident, data_argument(path)))
    if not incidents:
        results().print("No incident: every request is sound.")


def _end_earlier_tour(directory: DataDirectory, reporter: LabProgress) -> None:
    """A tour that was killed leaves engines behind; their folder may not be emptied under them."""
    if pair.status(TOUR_NAME, directory.path) is not None:
        pair.down(TOUR_NAME, directory.path, reporter)


def _driven(settings: PairSettings, requests: int, reporter: LabProgress) -> list[Answer]:
    """The answers of a pair that lives just as long, whether Ctrl-C or SIGTERM ends it."""
    state = pair.up(settings, reporter)
    with interruptible_by_sigterm():
        try:
            reporter.step(f"sending {requests} requests through {state.router_url}")
            return drive(
                state,
                DriveSettings(requests=requests),
                on_answer=lambda answer: reporter.show(answer_line(answer)),
            )
        finally:
            with undisturbed():
                pair.down(settings.name, settings.data, reporter)


def _judged(directory: DataDirectory) -> list[Incident]:
    with Service.open(directory, version=installed_version(), serve_queries=False) as service:
        service.run_once()
        return judge(service.store)
