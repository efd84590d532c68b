"""One process's event source: stamps records on the hot path, encodes and writes them in a sender thread.

`emit` takes constant time and never raises. Nothing is started before `start` was called, because vLLM loads
plug-ins in processes that fork later; after a fork the child begins anew with its own boot id.
"""

import atexit
import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing import util as multiprocessing_util
from pathlib import Path

from falseok_collector.attributes import Attributes, CollectorHeartbeat, EngineExit, HookState
from falseok_collector.deferred import Deferred
from falseok_collector.events import CONTRACT_VERSION, Envelope, Origin, encode
from falseok_collector.hashing import KeyedHash
from falseok_collector.identity import external_id_of, trace_ids
from falseok_collector.ring import Record, Ring
from falseok_collector.settings import Settings
from falseok_collector.sinks import Sink
from falseok_collector.sinks.memory import MemorySink
from falseok_collector.sinks.spool import SpoolSink

logger = logging.getLogger("falseok")

_BATCH_EVENTS = 2_000
_RETRY_SECONDS_MAX = 5.0
_CLOSE_SECONDS = 3.0


class Emitter:
    """Everything one process knows about sending events.

    Set `process`, `engine_id` and `group` as soon as they are known: records emitted earlier take them too.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.process = ""
        self.engine_id = ""
        self.group = settings.engine_group
        self.hook_states: Callable[[], list[HookState]] = list
        self._host = socket.gethostname()
        self.reset()

    def reset(self) -> None:
        """Begin anew: another boot id, an empty ring, no thread. Called in the child after a fork."""
        self.boot = f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(4)}"
        self.ring = Ring(self.settings.ring_events)
        self.sinks: list[Sink] = []
        self.last_request_id = ""
        self._pid = os.getpid()
        self._keyed_hash = KeyedHash(self.settings.salt)
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._sink_errors = 0
        self._encode_errors = 0
        self._emitted = 0
        self._pending: dict[str, list[bytes]] = {}
        self._retry_at: dict[str, tuple[float, float]] = {}

    def emit(  # noqa: PLR0913 - the envelope is wide
        self,
        attributes: Attributes | Deferred,
        *,
        engine_id: str = "",
        rank: int = -1,
        request_id: str = "",
        external_id: str = "",
        transfer_id: str = "",
        traceparent: str = "",
    ) -> None:
        """Queue one event. Constant time, never blocks, never raises."""
        if request_id:
            self.last_request_id = request_id
        self.ring.append(
            Record(
                self.ring.next_number(),
                time.time_ns(),
                time.monotonic_ns(),
                attributes,
                engine_id,
                rank,
                request_id,
                external_id,
                transfer_id,
                traceparent,
            )
        )

    def start(self) -> None:
        """Start the sender thread once. Only from places after which the process does not fork (see DECISIONS)."""
        if self._thread is not None:
            return
        self.sinks = self._open_sinks()
        self._thread = threading.Thread(target=self._run, name="falseok-sender", daemon=True)
        self._thread.start()
        # Engine processes are multiprocessing children, which skip atexit; API servers are not.
        atexit.register(self.close)
        multiprocessing_util.Finalize(None, self.close, exitpriority=100)

    def close(self) -> None:
        """Say goodbye, write what is queued (for at most a few seconds) and stop the thread."""
        thread = self._thread
        if thread is None or self._stopping.is_set() or os.getpid() != self._pid:
            return
        self.emit(EngineExit(process=self.process, reason="clean", last_request_id=self.last_request_id))
        self._stopping.set()
        thread.join(_CLOSE_SECONDS)

    def _open_sinks(self) -> list[Sink]:
        sinks: list[Sink] = []
        for name in self.settings.sinks:
            if name == "memory":
                sinks.append(MemorySink())
            else:
                sinks.append(
                    SpoolSink(
                        Path(self.settings.spool_dir),
                        self.boot,
                        max_bytes=self.settings.spool_max_bytes,
                        segment_bytes=self.settings.spool_segment_bytes,
                    )
                )
        return sinks

    def _run(self) -> None:
        _widen_affinity()
        next_heartbeat = 0.0
        while True:
            stopping = self._stopping.wait(self.settings.flush_seconds)
            now = time.monotonic()
            if now >= next_heartbeat or stopping:
                self.emit(self._heartbeat())
                next_heartbeat = now + self.settings.heartbeat_seconds
            while self._flush(now, final=stopping) and len(self.ring):
                pass
            if stopping:
                for sink in self.sinks:
                    with contextlib.suppress(OSError):
                        sink.close()
                return

    def _flush(self, now: float, *, final: bool) -> bool:
        """Write one batch to every sink; False when a sink is in trouble, so that the ring keeps the rest."""
        if not any(self._pending.values()):
            lines = [
                line for record in self.ring.take(_BATCH_EVENTS) if (line := self._encode(record)) is not None
            ]
            if not lines:
                return False
            self._emitted += len(lines)
            self._pending = {sink.name: lines for sink in self.sinks}
        outcomes = [self._offer(sink, now, final=final) for sink in self.sinks]
        return all(outcomes)

    def _offer(self, sink: Sink, now: float, *, final: bool) -> bool:
        lines = self._pending.get(sink.name)
        if not lines:
            return True
        retry_at, delay = self._retry_at.get(sink.name, (0.0, 0.0))
        if now < retry_at and not final:
            return False
        try:
            sink.write(lines)
        except OSError as error:
            self._sink_errors += 1
            if not delay:
                logger.warning(
                    "falseok: the %s sink cannot write, events wait in memory: %s", sink.name, error
                )
            delay = min(max(delay * 2, self.settings.flush_seconds), _RETRY_SECONDS_MAX)
            self._retry_at[sink.name] = (now + delay, delay)
            return False
        if delay:
            logger.warning("falseok: the %s sink writes again", sink.name)
        self._retry_at.pop(sink.name, None)
        self._pending[sink.name] = []
        return True

    def _encode(self, record: Record) -> bytes | None:
        try:
            attributes = record.attributes
            if isinstance(attributes, Deferred):
                attributes = attributes.finish(self._keyed_hash)
            trace_id, span_id = trace_ids(record.traceparent)
            engine_id = record.engine_id or self.engine_id
            return encode(
                Envelope(
                    v=CONTRACT_VERSION,
                    id=f"{self.boot}-{record.seq}",
                    ts=record.wall_ns // 1_000,
                    mono=record.mono_ns // 1_000,
                    boot=self.boot,
                    seq=record.seq,
                    name=attributes.event_name,
                    origin=Origin.HOOK,
                    engine_id=engine_id[:256],
                    group=(self.group or engine_id)[:256],
                    rank=record.rank,
                    host=self._host[:256],
                    pid=self._pid,
                    request_id=record.request_id[:1024],
                    external_id=(record.external_id or external_id_of(record.request_id))[:1024],
                    transfer_id=record.transfer_id[:1024],
                    trace_id=trace_id,
                    span_id=span_id,
                ),
                attributes,
            )
        except Exception:
            self._encode_errors += 1
            if self._encode_errors == 1:
                logger.warning("falseok: an event could not be encoded and is lost", exc_info=True)
            return None

    def _heartbeat(self) -> CollectorHeartbeat:
        losses = [sink.losses() for sink in self.sinks]
        return CollectorHeartbeat(
            process=self.process,
            events_emitted=self._emitted,
            events_dropped=self.ring.dropped + self._encode_errors,
            events_spilled=sum(events for events, _ in losses),
            segments_dropped=sum(segments for _, segments in losses),
            sink_errors=self._sink_errors,
            queue_depth=len(self.ring),
            hooks=self.hook_states(),
        )


def _widen_affinity() -> None:
    """Undo what vLLM's CPU platform does: it narrows the affinity of the thread that builds the worker, and threads inherit it."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
