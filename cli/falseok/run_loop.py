"""`falseok run` between its start and its end: the service in a thread, judging and the status line in this one.

The clock and the display come from outside; stopping is setting the event.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from falseok.judging import IncidentNews, JudgingPace
from falseok.run_display import RunDisplay
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_pipeline.errors import QueryError
from falseok_pipeline.service import Service
from falseok_pipeline.statistics import Statistics

TICK_SECONDS = 0.5


class StoppedEarlyError(Exception):
    """The run was told to stop before it had drained what was there. Nothing is lost: the next run goes on here."""


class RunLoop:
    """One run of the embedded service. Create it, call `until_stopped` or `once`, then read `incidents`."""

    def __init__(
        self,
        service: Service,
        stop: threading.Event,
        display: RunDisplay,
        seconds_now: Callable[[], float],
        news: IncidentNews,
    ) -> None:
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
        parts = [
            f"{statistics.events_stored:,} events stored by this run",
            f"{statistics.lag_bytes:,} bytes behind",
            f"{statistics.dead_letters:,} dead letters",
            f"{len(self.incidents)} incident{'' if len(self.incidents) == 1 else 's'}",
        ]
        if statistics.lost_segments:
            parts.append(f"{statistics.lost_segments} SEGMENTS LOST")
        return " · ".join([*parts, *filter(None, (statistics.waiting_for, self._judging_problem))])
