"""The loop of `falseok run` where it has to go on, or to stop."""

import threading
from typing import Any, cast

import pytest

from falseok.judging import IncidentNews
from falseok.run_loop import RunLoop, StoppedEarlyError
from falseok_pipeline.errors import QueryError, StoreUnavailableError
from falseok_pipeline.service import OnBatch, Service
from falseok_pipeline.statistics import Statistics


class Recorder:
    """A display that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.announced: list[str] = []

    def show(self, line: str, now_seconds: float) -> None:
        """Keep it."""
        self.lines.append(line)

    def announce(self, line: str) -> None:
        """Keep it."""
        self.announced.append(line)

    def close(self) -> None:
        """Nothing to do."""


class BusyStore:
    """A store that refuses every question."""

    def query(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """Refuse."""
        raise QueryError("memory limit exceeded", 241)


class Work:
    """A service that stores two batches, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.store = BusyStore()
        self.statistics = Statistics(started_at_micros=1, events_stored=7, waiting_for="disk full")
        self._error = error

    def run(self, stop: threading.Event) -> Statistics:
        """Wait to be stopped."""
        if self._error is not None:
            raise self._error
        stop.wait(60)
        return self.statistics

    def run_once(self, on_batch: OnBatch) -> Statistics:
        """Two batches."""
        on_batch(self.statistics)
        on_batch(self.statistics)
        return self.statistics


def loop_over(work: Work, stop: threading.Event, display: Recorder) -> RunLoop:
    """A loop with a clock that stands still."""
    return RunLoop(cast("Service", work), stop, display, lambda: 0.0, IncidentNews())


def test_a_store_too_busy_to_be_judged_does_not_end_the_run() -> None:
    """Storing matters more than judging: the trouble is shown in the status line and the run goes on."""
    display = Recorder()
    statistics = loop_over(Work(), threading.Event(), display).once()
    assert 7 == statistics.events_stored
    assert display.lines[-1].endswith("disk full · cannot judge now: memory limit exceeded")


def test_stop_before_the_end_of_once_is_told() -> None:
    """A drain that was cut short must not look like a finished one."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedEarlyError):
        loop_over(Work(), stop, Recorder()).once()


def test_failure_of_the_service_ends_the_run_with_its_own_error() -> None:
    """An error in the service's thread reaches the command, and nothing is left waiting."""
    with pytest.raises(StoreUnavailableError, match="gone"):
        loop_over(Work(StoreUnavailableError("gone")), threading.Event(), Recorder()).until_stopped()


def test_setting_the_event_ends_a_run_that_waits() -> None:
    """The loop returns what the service counted."""
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    assert 7 == loop_over(Work(), stop, Recorder()).until_stopped().events_stored
