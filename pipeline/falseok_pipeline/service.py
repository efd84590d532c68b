"""The loop: poll, validate, insert, commit. Wires the parts of both shapes together.

Offsets are committed only after the insert returned, and an insert returns only when it is durable: whenever the
process dies, at most the last batch is stored again, and that changes nothing.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.clock import now_micros
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import StoreUnavailableError
from falseok_pipeline.service_metrics import ServiceMetrics
from falseok_pipeline.sources import Source
from falseok_pipeline.sources.batch_building import STANDARD, BatchLimits
from falseok_pipeline.sources.offsets import Offsets
from falseok_pipeline.sources.spool import SpoolDirectory, SpoolSource
from falseok_pipeline.statistics import Statistics
from falseok_pipeline.validation import Validated, validate
from falseok_pipeline.writer import ClosableSink, EventSink, Interrupted, Writer

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
OnBatch = Callable[[Statistics], None]


class Service:
    """Brings what a source has into the store. One thread runs it; `statistics` may be read from any."""

    def __init__(
        self,
        source: Source,
        store: ClientStore,
        clock: Callable[[], int] = now_micros,
        poll_seconds: float = POLL_SECONDS,
        *,
        sink: EventSink | None = None,
    ) -> None:
        """`open` and `over` are the usual ways to get one. `sink` stands before the store where events are written."""
        self.store = store
        self._source = source
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._stop = threading.Event()
        self._writer = Writer(sink or store, clock, self._wait, self._note_waiting)
        self._held = ExitStack()
        self.statistics = Statistics(started_at_micros=clock())
        self._metrics = ServiceMetrics(lambda: self.statistics)

    @classmethod
    def open(  # noqa: PLR0913 - one keyword a choice, each with its usual value
        cls,
        data: DataDirectory,
        *,
        version: str = "",
        spools: Callable[[], Iterable[SpoolDirectory]] | None = None,
        source: Callable[[], Source] | None = None,
        sink: Callable[[EventSink], ClosableSink] | None = None,
        serve_queries: bool = True,
        limits: BatchLimits = STANDARD,
        clock: Callable[[], int] = now_micros,
    ) -> Self:
        """Claim the data directory, open and migrate its store, and answer queries on its socket.

        `source` is what is read instead of spools. `spools` defaults to those of the data directory, the labs'
        included; only its own spool is deleted from.

        Raises:
            DataDirectoryInUseError: another live process holds the directory.
            PipelineError: the store, the offsets or the source cannot be used; the message says what to do.
        """
        claim = data.claim("run", clock(), version=version, serves_queries=serve_queries)
        with ExitStack() as undo:
            store = undo.enter_context(EmbeddedStore(data.store, claim=claim))
            store.migrate(clock())
            read = source or (
                lambda: SpoolSource(
                    spools or (lambda: usual_spools(data)),
                    Offsets(data.offsets_file),
                    lambda: clock() / 1e6,
                    limits,
                )
            )
            service = cls._holding(undo, store, read, sink, clock)
            if serve_queries:
                # Imported late: it loads the engine, which a service over a server's store does without.
                from falseok_pipeline.query_server import QueryServer  # noqa: PLC0415

                undo.enter_context(QueryServer(data.store, data.query_socket))
            service.hold(undo.pop_all())
        return service

    @classmethod
    def over(
        cls,
        store: ClientStore,
        source: Callable[[], Source],
        *,
        sink: Callable[[EventSink], ClosableSink] | None = None,
        clock: Callable[[], int] = now_micros,
    ) -> Self:
        """A service over a store that many share, whose schema is there already; it closes both at its end.

        Raises what `source` raises; the store is then closed.
        """
        with ExitStack() as undo:
            service = cls._holding(undo, undo.enter_context(store), source, sink, clock)
            service.hold(undo.pop_all())
        return service

    @classmethod
    def _holding(
        cls,
        undo: ExitStack,
        store: ClientStore,
        source: Callable[[], Source],
        sink: Callable[[EventSink], ClosableSink] | None,
        clock: Callable[[], int],
    ) -> Self:
        opened = source()
        undo.callback(opened.close)
        writes_to: ClosableSink = sink(store) if sink is not None else store
        undo.callback(writes_to.close)
        return cls(opened, store, clock, sink=writes_to)

    def run_once(self, on_batch: OnBatch | None = None) -> Statistics:
        """Store everything that is there now, then return. `on_batch` is called as by `run`, and may raise to stop."""
        while True:
            if self._step(on_batch):
                continue
            if self._source.caught_up():
                return self.statistics
            if on_batch is not None:
                on_batch(self.statistics)

    def run(self, stop: threading.Event, on_batch: OnBatch | None = None) -> Statistics:
        """Store what is there and what comes, until `stop` is set; the batch at hand is finished first.

        `on_batch` is called after each batch and after each idle look, in this thread.
        """
        self._stop = stop
        while not stop.is_set():
            if not self._step(on_batch):
                if on_batch is not None:
                    on_batch(self.statistics)
                stop.wait(self._poll_seconds)
        return self.statistics

    def hold(self, context: ExitStack) -> None:
        """Close this, too, when the service is closed, after everything else."""
        held = self._held.pop_all()
        self._held.push(context)
        self._held.push(held)  # closed first

    def close(self) -> None:
        """Stop answering queries, close the store, let go of the data directory. Idempotent."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _step(self, on_batch: OnBatch | None) -> bool:
        """One batch; False when there is none or it is time to stop."""
        batch = self._source.poll()
        self._count_lag()
        if batch is None:
            return False
        checked = validate(batch)
        try:
            stored, dead_letters = self._writer.write(checked)
            self._writer.patiently(lambda: self._commit(batch.positions))
        except Interrupted:
            return False
        self.statistics = replace(
            self.statistics,
            events_stored=self.statistics.events_stored + stored,
            dead_letters=self.statistics.dead_letters + dead_letters,
            blank_lines=self.statistics.blank_lines + checked.blank_lines,
            batches=self.statistics.batches + 1,
            bytes_read=self.statistics.bytes_read + batch.size_bytes,
            last_event_micros=max(self.statistics.last_event_micros, checked.last_event_micros),
            oldest_delay_seconds=self._delay_seconds(checked),
        )
        self._count_lag()
        if checked.events:
            self._metrics.batch_stored(self.statistics.oldest_delay_seconds)
        logger.debug(
            "batch_stored events=%d dead_letters=%d bytes=%d", stored, dead_letters, batch.size_bytes
        )
        if on_batch is not None:
            on_batch(self.statistics)
        return True

    def _commit(self, positions: Mapping[str, int]) -> None:
        try:
            self._source.commit(positions)
        except OSError as error:
            raise StoreUnavailableError(f"How far everything is stored cannot be noted: {error}") from error

    def _delay_seconds(self, checked: Validated) -> float:
        """Age of the batch's oldest event now; clocks of other hosts may be ahead of ours."""
        if not checked.first_event_micros:
            return self.statistics.oldest_delay_seconds
        return max(0.0, (self._clock() - checked.first_event_micros) / 1e6)

    def _count_lag(self) -> None:
        state = self._source.state()
        self.statistics = replace(
            self.statistics,
            lag_bytes=state.lag_bytes,
            lag_messages=state.lag_messages,
            lost_segments=state.lost_segments,
            lost_messages=state.lost_messages,
            source_trouble=state.trouble,
        )

    def _note_waiting(self, reason: str) -> None:
        if reason != self.statistics.waiting_for:
            self.statistics = replace(self.statistics, waiting_for=reason)

    def _wait(self, seconds: float) -> bool:
        return self._stop.wait(seconds)


def usual_spools(data: DataDirectory) -> list[SpoolDirectory]:
    """The spools of a data directory that exist now. Labs keep theirs: they are recorded from."""
    return [SpoolDirectory(path, delete_consumed=path == data.spool) for path in data.spools()]
