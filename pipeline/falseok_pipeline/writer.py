"""Puts batches into the store: at once when it takes them, line by line around those it refuses, later when it
cannot now. Nothing is skipped: what is not stored is a dead letter, or is still waiting.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_never, wait_exponential

from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.errors import RowsRefusedError, StoreUnavailableError
from falseok_pipeline.line_judgement import Line
from falseok_pipeline.validation import Validated

logger = logging.getLogger(__name__)


class EventSink(Protocol):
    """What the writer needs of a store; see `EmbeddedStore`."""

    def insert_events(self, lines: bytes) -> None:
        """Durable when it returns. Raises `RowsRefusedError` or `StoreUnavailableError`."""
        ...

    def insert_dead_letters(self, letters: Sequence[DeadLetter], now_micros: int) -> None:
        """Durable when it returns. Raises `StoreUnavailableError`."""
        ...


class ClosableSink(EventSink, Protocol):
    """One that holds something open."""

    def close(self) -> None:
        """Let go of it. Idempotent."""
        ...


class Interrupted(Exception):  # noqa: N818 - not an error: the batch is simply not stored yet
    """The service was told to stop while the store could not take a batch."""


class Writer:
    """Stores validated batches, one after another."""

    def __init__(
        self,
        store: EventSink,
        now_micros: Callable[[], int],
        sleep: Callable[[float], bool],
        waiting: Callable[[str], None],
        longest_wait_seconds: float = 30.0,
    ) -> None:
        """`sleep(seconds)` returns True when waiting should end for good; `waiting` is told why the store makes
        us wait, and the empty string when it no longer does.
        """
        self._store = store
        self._now_micros = now_micros
        self._sleep = sleep
        self._waiting = waiting
        self._longest_wait_seconds = longest_wait_seconds

    def write(self, batch: Validated) -> tuple[int, int]:
        """Store the batch; returns events stored and dead letters written. Blocks as long as the store cannot.

        Raises:
            Interrupted: `sleep` said that it is time to stop; the batch is not stored as a whole.
        """
        refused: list[DeadLetter] = []
        if batch.events:
            try:
                self.patiently(lambda: self._store.insert_events(batch.payload))
            except RowsRefusedError as error:
                refused = self._bisect(batch.located(), error)
        letters = [*batch.dead_letters, *refused]
        if letters:
            self.patiently(lambda: self._store.insert_dead_letters(letters, self._now_micros()))
        return batch.events - len(refused), len(letters)

    def patiently(self, attempt: Callable[[], None]) -> None:
        """Do something that may raise `StoreUnavailableError`, again and again until it does not.

        Raises `Interrupted` as `write`, and whatever else the attempt raises.
        """
        attempts = Retrying(
            retry=retry_if_exception_type(StoreUnavailableError),
            stop=stop_never,
            wait=wait_exponential(multiplier=0.1, max=self._longest_wait_seconds),
            sleep=self._sleep_or_stop,
            before_sleep=self._say_why,
        )
        attempts(attempt)
        self._waiting("")

    def _bisect(self, lines: Sequence[Line], error: RowsRefusedError) -> list[DeadLetter]:
        """Store all lines but those that the store refuses on their own."""
        if len(lines) == 1:
            line = lines[0]
            message = f"the store refuses it (ClickHouse error {error.code}): {error}"[:500]
            return [DeadLetter(Reason.REFUSED_BY_STORE, message, line.source, line.byte_offset, line.data)]
        middle = len(lines) // 2
        return [*self._try(lines[:middle]), *self._try(lines[middle:])]

    def _try(self, lines: Sequence[Line]) -> list[DeadLetter]:
        payload = b"".join(line.data + b"\n" for line in lines)
        try:
            self.patiently(lambda: self._store.insert_events(payload))
        except RowsRefusedError as error:
            return self._bisect(lines, error)
        return []

    def _sleep_or_stop(self, seconds: float) -> None:
        if self._sleep(seconds):
            raise Interrupted

    def _say_why(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if state.attempt_number == 1:
            logger.error("store_unavailable reason=%s", error)
        self._waiting(str(error))
