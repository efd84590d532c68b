"""Joins answers to failed requests. An access line carries no request id, so counts and times have to do.

Failures close to one another are one episode. All answers from shortly before it to some minutes after it are counted:
a stream is answered before its transfer fails, a long answer long after. Where all of them have the same outcome and
there are exactly as many as failures, every failed request had that outcome, whichever line was its own. With more of
them healthy requests are in between, and a failed one may have had no answer at all: its client had left.
"""

from collections import deque
from dataclasses import dataclass, field

LEAD_MICROS = 60_000_000
LAG_MICROS = 300_000_000
GAP_MICROS = LEAD_MICROS + LAG_MICROS
"""A failure later than this after the last one begins another episode: no answer is counted for two."""

_KEPT_ANSWERS = 100_000


@dataclass(slots=True, eq=False)
class Failure:
    """One request whose transfer failed, as the log tells it."""

    engine_id: str
    request_id: str
    external_id: str
    ts: int
    pid: int = 0
    told_scheduler: bool = False
    ended_in_error: bool = False
    answered_by_id: bool = False

    @property
    def resolved(self) -> bool:
        """Whether the log itself says how it ended."""
        return self.told_scheduler or self.ended_in_error


@dataclass(slots=True)
class Joined:
    """The answer a failure had."""

    failure: Failure
    status: int
    ts: int
    joined_by: str
    note: str


@dataclass(slots=True)
class Window:
    """One episode: what was counted, and what follows. `fits` is `None` where nothing had to be joined."""

    first_micros: int
    last_micros: int
    failures: list[Failure] = field(default_factory=list)
    succeeded: int = 0
    errors: int = 0
    successes: list[tuple[int, int]] = field(default_factory=list)
    """Time and status of answers below 300, one for each failure that came before it and no more."""
    failed_answers: list[tuple[int, int]] = field(default_factory=list)
    """The same of answers from 500 on."""
    fits: bool | None = None
    note: str = ""

    def count(self, ts: int, status: int) -> None:
        """An answer in the window. Refusals (4xx) never reached a transfer."""
        if status < 300:
            self.succeeded += 1
            if len(self.successes) < len(self.failures):
                self.successes.append((ts, status))
        elif status >= 500:
            self.errors += 1
            if len(self.failed_answers) < len(self.failures):
                self.failed_answers.append((ts, status))


class Joiner:
    """Failures and answers of one server, in the order of its log. Memory grows with the failures only."""

    def __init__(self) -> None:
        self.windows: list[Window] = []
        self._recent: deque[tuple[int, int]] = deque(maxlen=_KEPT_ANSWERS)

    def failure(self, failure: Failure) -> None:
        """A transfer failed."""
        window = self.windows[-1] if self.windows else None
        if window is None or failure.ts - window.last_micros > GAP_MICROS:
            window = Window(failure.ts, failure.ts)
            for ts, status in self._recent:
                if ts >= failure.ts - LEAD_MICROS:
                    window.count(ts, status)
            self.windows.append(window)
        window.last_micros = max(window.last_micros, failure.ts)
        window.failures.append(failure)

    def answer(self, ts: int, status: int) -> None:
        """An access line of a generating endpoint."""
        window = self.windows[-1] if self.windows else None
        if window is not None and ts <= window.last_micros + LAG_MICROS:
            window.count(ts, status)
            return
        self._recent.append((ts, status))
        while self._recent[0][0] < ts - LEAD_MICROS:
            self._recent.popleft()

    def joined(self) -> list[Joined]:
        """The answers of all failures that no record with an id answered. Call it once, at the end."""
        return [answer for window in self.windows for answer in _joined(window)]


def _joined(window: Window) -> list[Joined]:
    waiting = [failure for failure in window.failures if not failure.answered_by_id]
    known = [failure for failure in waiting if failure.resolved]
    unknown = [failure for failure in waiting if not failure.resolved]
    by_id = len(window.failures) - len(waiting)
    # Those that the log says ended in an error have their share of the errors; what is left over were streams.
    in_error = min(len(known), window.errors)
    errors = window.errors - in_error
    successes = max(window.succeeded - (len(known) - in_error) - by_id, 0)
    found: list[Joined] = []
    if known and in_error == len(known):
        found += _assign(
            known, window.failed_answers, "count_and_time", _note(len(known), window.errors, "5xx"), 500
        )
    if not unknown:
        return found
    if successes and not errors:
        window.fits = successes == len(unknown)
        window.note = _note(len(unknown), successes, "2xx")
        joined_by = "count_and_time" if window.fits else "count_mismatch"
        found += _assign(unknown, window.successes, joined_by, window.note, 200)
    elif errors and not successes:
        window.fits = errors == len(unknown)
        window.note = _note(len(unknown), errors, "5xx")
        if window.fits:
            found += _assign(unknown, window.failed_answers[in_error:], "count_and_time", window.note, 500)
    elif successes:
        # Some of them may be those of the failed requests: enough to suspect, not to say which.
        window.fits = False
        window.note = f"{_counted(len(unknown))}, {successes:,} answers 2xx and {errors:,} answers 5xx"
        found += _assign(unknown, window.successes, "count_mismatch", window.note, 200)
    else:
        window.fits = False
        window.note = f"{_counted(len(unknown))}, no answers"
    return found


def _note(failures: int, answers: int, status: str) -> str:
    return f"{_counted(failures)}, {answers:,} answer{'' if answers == 1 else 's'}, all {status}"


def _counted(failures: int) -> str:
    return f"{failures:,} failed request{'' if failures == 1 else 's'}"


def _assign(
    failures: list[Failure], answers: list[tuple[int, int]], joined_by: str, note: str, status: int
) -> list[Joined]:
    """To each failure the next answer after it; it does not matter whose it was, since all are alike.

    Where a stream was answered before its transfer failed, the time is that of the failure.
    """
    found: list[Joined] = []
    place = 0
    for failure in failures:
        while place < len(answers) and answers[place][0] < failure.ts:
            place += 1
        ts, told = answers[place] if place < len(answers) else (failure.ts, status)
        place += 1
        found.append(Joined(failure, told, ts, joined_by, note))
    return found
