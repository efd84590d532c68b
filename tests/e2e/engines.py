"""Runs of real engine pairs for the lab tests: start, drive, end, fold; everything is kept for assertions."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_lab.drive import Answer, DriveSettings, drive, drive_direct
from falseok_lab.pair import PairSettings, PairState, down, up
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service

REPOSITORY = Path(__file__).resolve().parents[2]
REQUESTS = 32


class PrintingReporter:
    """Shows what a lab is doing, for whoever watches the tests run."""

    def step(self, text: str) -> None:
        """A new step begins."""
        print(f"lab: {text}", flush=True)  # noqa: T201 - the tests take minutes

    def detail(self, text: str) -> None:
        """Details are kept out of the tests' output."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One pair's life: what the client saw, and what the store says."""

    state: PairState
    answers: list[Answer]
    direct: list[Answer]
    verdicts: dict[str, dict[str, Any]]
    """Row of `request_verdicts` by the client's request id."""
    incidents: list[Incident]
    hooks: dict[str, dict[str, int]] = field(default_factory=dict)
    """Calls and errors of every hook, the most any process of an engine saw."""
    dead_letters: int = 0
    lost_events: int = 0


def cache_directory() -> Path:
    """Where engines and models are kept between runs."""
    return Path(os.environ.get("FALSEOK_LAB_CACHE") or REPOSITORY / ".lab-cache")


def run_pair(
    data: Path,
    name: str,
    *,
    vllm: str,
    fault: str,
    collector: bool = True,
    direct: bool = False,
    environment: Mapping[str, str] | None = None,
    executor: str = "uni",
    requests: int = REQUESTS,
) -> Run:
    """Start a pair, send `requests` through it (and straight to decode when `direct`), end it, fold its events."""
    reporter = PrintingReporter()
    settings = PairSettings(
        name=name,
        data=data,
        cache=cache_directory(),
        vllm=vllm,
        model="tiny",
        fault=fault,
        collector=collector,
        collector_source=REPOSITORY,
        environment=dict(environment or {}),
        executor=executor,
    )
    state = up(settings, reporter)
    try:
        reporter.step(f"{name}: {requests} requests")
        drive_settings = DriveSettings(requests=requests)
        answers = drive(state, drive_settings)
        direct_answers = drive_direct(state, drive_settings) if direct else []
    finally:
        down(name, data, reporter)
    return _fold(data, state, answers, direct_answers)


def _fold(data: Path, state: PairState, answers: list[Answer], direct: list[Answer]) -> Run:
    with Service.open(DataDirectory(data), version="test", serve_queries=False) as service:
        service.run_once()
        store = service.store
        rows = store.query("SELECT * FROM request_verdicts WHERE leg != 'local'")
        hooks: dict[str, dict[str, int]] = {}
        for collector in store.query("SELECT hooks FROM collectors"):
            for hook in collector["hooks"]:
                seen = hooks.setdefault(hook["name"], {"calls": 0, "errors": 0})
                seen["calls"] = max(seen["calls"], int(hook["calls"]))
                seen["errors"] = max(seen["errors"], int(hook["errors"]))
        return Run(
            state=state,
            answers=answers,
            direct=direct,
            verdicts={str(row["external_id"]): row for row in rows},
            incidents=judge(store),
            hooks=hooks,
            dead_letters=int(store.query("SELECT count() AS n FROM dead_letters")[0]["n"]),
            lost_events=int(store.query("SELECT sum(lost_events) AS n FROM collectors")[0]["n"]),
        )
