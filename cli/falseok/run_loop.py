"""`falseok run` between its start and its end: the service in a thread, judging and the status line in this one.

The clock and the display come from outside; stopping is setting the event.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from falseok.judging import IncidentNews, JudgingPace, rest_seconds
from falseok.run_display import RunDisplay
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_pipeline.errors import QueryError
from falseok_pipeline.service import Service
from falseok_pipeline.statistics import Statistics
from falseok_pipeline.store import Store

TICK_SECONDS = 0.5


class StoppedEarlyError(Exception):
    """The run was told to stop before it had drained what was there. Nothing is lost: the next run goes on here."""


class RunLoop:
    """One run of the embedded service. Create it, call `until_stopped` or `once`, then read `incidents`."""

    def __init__(  # noqa: PLR0913 - each comes from outside
        self,
        service: Service,
        stop: threading.Event,
        display: RunDisplay,
        seconds_now: Callable[[], float],
        news: IncidentNews,
        *,
        judges: bool = True,
    ) -> None:
        """`judges` is False for a process that only stores, while another one judges the shared store."""
        self._judges = judges
        self._service = service
        self._stop = stop
        self._display = display
        self._seconds_now = seconds_now
        self._pace = JudgingPace()
        self._news = news
        self._judging_problem = ""
        self.incidents: list[Incident] = []

    def until_stopped(self) -> Statistics:
        """Store and judge until the event is set; blocks. What was stored at the end is judged once more."""
        return self._run(lambda: self._service.run(self._stop))

    def once(self) -> Statistics:
        """Store and judge what is there now; blocks.

        Raises:
            StoppedEarlyError: the event was set before everything was stored.
        """
        return self._run(lambda: self._service.run_once(self._stop_between_batches))

    def _run(self, work: Callable[[], Statistics]) -> Statistics:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="falseok-service") as pool:
            future = pool.submit(work)
            try:
                self._watch(future)
            finally:
                # Whatever ended the watching, the service must end too, or leaving the pool would wait for ever.
                self._stop.set()
            statistics = future.result()
        self._judge(statistics)
        self._display.show(self._line(statistics), self._seconds_now())
        return statistics

    def _watch(self, future: "Future[Statistics]") -> None:
        while not wait([future], timeout=TICK_SECONDS).done:
            statistics = self._service.statistics
            if self._pace.is_due(statistics.events_stored, self._seconds_now()):
                self._judge(statistics)
            self._display.show(self._line(statistics), self._seconds_now())

    def _judge(self, statistics: Statistics) -> None:
        if not self._judges:
            return
        began = self._seconds_now()
        try:
            self.incidents = judge(self._service.store)
            self._judging_problem = ""
        except QueryError as error:
            # Storing goes on: events must not be lost because the store is too busy to be asked.
            self._judging_problem = f"cannot judge now: {error}"
        self._pace.judged(statistics.events_stored, began, self._seconds_now())
        for line in self._news.lines(self.incidents):
            self._display.announce(line)

    def _stop_between_batches(self, _statistics: Statistics) -> None:
        if self._stop.is_set():
            raise StoppedEarlyError

    def _line(self, statistics: Statistics) -> str:
        parts = [f"{statistics.events_stored:,} events stored by this run", _behind(statistics)]
        parts.append(f"{statistics.dead_letters:,} dead letters")
        if self._judges:
            parts.append(_counted(self.incidents))
        if statistics.lost_segments:
            parts.append(f"{statistics.lost_segments} SEGMENTS LOST")
        if statistics.lost_messages:
            parts.append(f"{statistics.lost_messages:,} MESSAGES LOST to the topic's retention")
        troubles = (statistics.source_trouble, statistics.waiting_for, self._judging_problem)
        return " · ".join([*parts, *filter(None, troubles)])


class JudgeLoop:
    """Judges a store that others fill. Create it, call `until_stopped` or `once`."""

    def __init__(
        self,
        store: Store,
        stop: threading.Event,
        display: RunDisplay,
        seconds_now: Callable[[], float],
        news: IncidentNews,
    ) -> None:
        self._store = store
        self._stop = stop
        self._display = display
        self._seconds_now = seconds_now
        self._news = news
        self._incidents: list[Incident] = []

    def until_stopped(self) -> list[Incident]:
        """Judge again and again until the event is set; blocks. A store that is away is waited for."""
        while not self._stop.is_set():
            began = self._seconds_now()
            try:
                self.once()
                line = _counted(self._incidents)
            except QueryError as error:
                line = f"cannot judge now: {error}"
            ended = self._seconds_now()
            self._display.show(line, ended)
            self._stop.wait(rest_seconds(ended - began))
        return self._incidents

    def once(self) -> list[Incident]:
        """Judge what is stored now and tell what is new. Raises `QueryError`."""
        self._incidents = judge(self._store)
        for line in self._news.lines(self._incidents):
            self._display.announce(line)
        return self._incidents


def _behind(statistics: Statistics) -> str:
    messages = f"{statistics.lag_messages:,} messages" if statistics.lag_messages else ""
    return f"{messages or f'{statistics.lag_bytes:,} bytes'} behind"


def _counted(incidents: list[Incident]) -> str:
    return f"{len(incidents)} incident{'' if len(incidents) == 1 else 's'}"
