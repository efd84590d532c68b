"""One process's event source: stamps records on the hot path and hands them to a sender thread.

`emit` takes constant time and never raises. Nothing is started before `start` was called, because vLLM loads
plug-ins in processes that fork later; after a fork the child begins anew with its own boot id.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing import util as multiprocessing_util

from falseok_collector.attributes import Attributes, CollectorHeartbeat, EngineExit, HookState, SinkState
from falseok_collector.deferred import Deferred
from falseok_collector.encoding import Source, encode_record
from falseok_collector.hashing import KeyedHash
from falseok_collector.outlet import Outlet
from falseok_collector.ring import Record, Ring
from falseok_collector.sender import Sender
from falseok_collector.settings import Settings
from falseok_collector.sinks import Sink
from falseok_collector.sinks.choice import open_sinks
from falseok_collector.thread_name import show_thread_name

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
        self.sinks: list[Sink] = []
        self._host = socket.gethostname()
        self._affinity = _affinity()
        self.reset()

    def reset(self) -> None:
        """Begin anew: another boot id, an empty ring, no thread. Called in the child after a fork."""
        for sink in self.sinks:
            sink.abandon()
        self.sinks = []
        self._unavailable: list[SinkState] = []
        self.boot = f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(4)}"
        self.ring = Ring(self.settings.ring_events)
        self.last_request_id = ""
        self._exit_reason = "clean"
        self._pid = os.getpid()
        self._keyed_hash = KeyedHash(self.settings.salt)
        self._sender: Sender | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

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
        self.sinks, self._unavailable = open_sinks(self.settings, self.boot)
        outlets = [
            Outlet(sink, queue_events=self.settings.ring_events, retry_seconds=self.settings.flush_seconds)
            for sink in self.sinks
        ]
        self._sender = Sender(self.ring, outlets, self._encode)
        self._thread = threading.Thread(
            target=self._run, args=(self._sender,), name="falseok-sender", daemon=True
        )
        self._thread.start()
        # Not atexit: engine processes are children of multiprocessing, which skip it. This runs in any process.
        multiprocessing_util.Finalize(None, self.close, exitpriority=100)

    def close(self) -> None:
        """Say goodbye, write what is queued (for at most a few seconds) and stop the thread.

        What is emitted afterwards only counts as dropped in `ring.dropped`; no heartbeat is left to tell it, but
        `engine.exit` says that the process had ended by then.
        """
        thread = self._thread
        if thread is None or self._stopping.is_set():
            return
        self.emit(
            EngineExit(process=self.process, reason=self._exit_reason, last_request_id=self.last_request_id)
        )
        self._stopping.set()
        thread.join(_CLOSE_SECONDS)
        self.ring.close()

    def ended_by(self, error: BaseException) -> None:
        """The process's loop ended by an exception; leaving on purpose (`SystemExit`, Ctrl-C) still is a clean end."""
        if not isinstance(error, SystemExit | KeyboardInterrupt):
            self._exit_reason = f"exception: {type(error).__name__}"

    def _run(self, sender: Sender) -> None:
        _set_affinity(self._affinity)
        show_thread_name()
        sender.run(
            self._stopping,
            flush_seconds=self.settings.flush_seconds,
            heartbeat=lambda: self.emit(self._heartbeat(sender)),
            heartbeat_seconds=self.settings.heartbeat_seconds,
        )

    def _encode(self, record: Record) -> bytes:
        source = Source(
            boot=self.boot, host=self._host, pid=self._pid, engine_id=self.engine_id, group=self.group
        )
        return encode_record(record, source, self._keyed_hash)

    def _heartbeat(self, sender: Sender) -> CollectorHeartbeat:
        counts = [sink.counts for sink in self.sinks]
        return CollectorHeartbeat(
            process=self.process,
            events_emitted=sender.events_emitted,
            events_dropped=self.ring.dropped + sender.encode_errors,
            events_spilled=sum(count.spilled for count in counts),
            segments_dropped=sum(count.segments_dropped for count in counts),
            sink_errors=sender.sink_errors,
            queue_depth=len(self.ring),
            hooks=self.hook_states(),
            sinks=[outlet.state() for outlet in sender.outlets] + self._unavailable,
            captures_text=self.settings.capture_text,
        )


def _affinity() -> set[int]:
    """The processors this process may use, before vLLM narrows them."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _set_affinity(processors: set[int]) -> None:
    """Undo what vLLM's CPU platform does: it narrows the affinity of the thread that builds the worker, and threads inherit it."""
    with contextlib.suppress(OSError):
        if processors:
            os.sched_setaffinity(0, processors)
