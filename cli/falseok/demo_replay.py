"""The demo's work: a recording of real engines through spool, pipeline and chDB, then judged. Prints nothing itself."""

from collections.abc import Callable
from dataclasses import dataclass

from falseok.entry import installed_version
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_lab.recording import Recording
from falseok_pipeline import replay
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What the replay came to."""

    events: int
    dead_letters: int
    incidents: list[Incident]


def replay_recording(recording: Recording, data: DataDirectory, step: Callable[[str], None]) -> Replayed:
    """Play the whole recording into an empty data directory and judge it. `step` is told what begins; blocks.

    Raises:
        PipelineError: the store cannot be made or filled.
        LabError: the recording is damaged.
    """
    step("writing the recorded events into a spool, as a collector does")
    replay.write_spool(data.spool, recording.lines())
    step("opening the store (chDB, ClickHouse in this process)")
    with Service.open(data, version=installed_version(), serve_queries=False) as service:
        step("validating, storing and folding the events")
        statistics = service.run_once()
        step("judging every request and looking for causes")
        incidents = judge(service.store)
    return Replayed(
        events=statistics.events_stored, dead_letters=statistics.dead_letters, incidents=incidents
    )
