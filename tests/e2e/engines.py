"""Runs of real engine pairs for the lab tests: start, drive, end, fold; everything is kept for assertions."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_lab.drive import Answer, DriveSettings, drive, drive_direct
from falseok_lab.pair import PairSettings, PairState, down, up
from falseok_lab.processes import interruptible_by_sigterm, undisturbed
from falseok_lab.sides import Side
from falseok_lab.spool_lines import read_spool
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
    """Row of `request_verdicts` by the client's request id, of all that asked for a remote KV cache."""
    rows: list[dict[str, Any]]
    """Every row of `request_verdicts`."""
    incidents: list[Incident]
    hooks: dict[str, dict[str, int]] = field(default_factory=dict)
    """Calls and errors of every hook, the most any process of an engine saw."""
    dead_letters: int = 0
    lost_events: int = 0

    def row(self, external_id: str) -> dict[str, Any]:
        """The one row of a request; that there is exactly one is checked."""
        found = [row for row in self.rows if row["external_id"] == external_id]
        assert 1 == len(found), [(row["request_id"], row["verdict"]) for row in found]
        return found[0]

    def events(self, external_id: str, *, group: str = "decode") -> list[dict[str, Any]]:
        """What one engine's collector said of a request, in the order of time."""
        return [
            event
            for event in read_spool(self.state.spool).events
            if event.get("external_id") == external_id and event["group"].endswith(group)
        ]

    def of(self, run: str) -> list[Answer]:
        """The answers of one drive."""
        return [answer for answer in self.answers if answer.run == run]


def cache_directory() -> Path:
    """Where engines and models are kept between runs."""
    return Path(os.environ.get("FALSEOK_LAB_CACHE") or REPOSITORY / ".lab-cache")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a pair of a test differs from an ordinary one."""

    connector: str = "pull"
    lease_seconds: int | None = None
    prefill: Side = field(default_factory=Side)
    decode: Side = field(default_factory=Side)


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
    shape: Shape | None = None,
    drives: Sequence[DriveSettings] = (DriveSettings(requests=REQUESTS),),
    quiet_seconds: float = 0.0,
) -> Run:
    """Start a pair, send the drives through it one after the other, end it, fold its events.

    `direct`: the last drive's prompts go straight to decode as well. `quiet_seconds` pass before the end.
    """
    reporter = PrintingReporter()
    shape = shape or Shape()
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
        connector=shape.connector,
        lease_seconds=shape.lease_seconds,
        prefill=shape.prefill,
        decode=shape.decode,
    )
    state = up(settings, reporter)
    answers: list[Answer] = []
    with interruptible_by_sigterm():
        try:
            for one in drives:
                reporter.step(f"{name}: {one.requests} requests {one.run or ''}")
                answers += drive(state, one)
            direct_answers = drive_direct(state, drives[-1]) if direct else []
            time.sleep(quiet_seconds)
        finally:
            with undisturbed():
                down(name, data, reporter)
    return _fold(data, state, answers, direct_answers)


def _fold(data: Path, state: PairState, answers: list[Answer], direct: list[Answer]) -> Run:
    with Service.open(DataDirectory(data), version="test", serve_queries=False) as service:
        service.run_once()
        store = service.store
        rows = store.query("SELECT * FROM request_verdicts")
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
            verdicts={str(row["external_id"]): row for row in rows if row["leg"] != "local"},
            rows=rows,
            incidents=judge(store),
            hooks=hooks,
            dead_letters=int(store.query("SELECT count() AS n FROM dead_letters")[0]["n"]),
            lost_events=int(store.query("SELECT sum(lost_events) AS n FROM collectors")[0]["n"]),
        )
