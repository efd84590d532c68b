"""What a NIXL worker process shows: compatibility factors, handshakes, reads and their ends.

The observers read vLLM objects and emit; they change nothing. Sources: `nixl.base_worker`, `nixl.pull_worker`
and `nixl.connector` of vLLM 0.26 to 0.33.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from falseok_collector.attributes import KvHandshake, KvReadEnd, KvReadStart
from falseok_collector.deferred import Deferred
from falseok_collector.emitter import Emitter
from falseok_collector.engine_config import engine_config, side_channel
from falseok_collector.handshake_failures import failure_type_of, hashes_in
from falseok_collector.hashing import KeyedHash, block_digest
from falseok_collector.hooks.common import (
    MAX_TRACKED,
    MESSAGE_CHARACTERS,
    error_fields,
    remember,
    seconds_since,
)
from falseok_collector.hooks.leases import LeaseObserver
from falseok_collector.hooks.probe import Call, Probe
from falseok_collector.identity import transfer_id_of

PUSH = "push"
"""Mode of a receipt in push mode: decode is written to."""
WRITE = "write"
"""What is tracked is prefill's side of push mode, no read at all."""
_NOT_FATAL = frozenset({"notification_failed", "transfer_release_failed", "push_reg_notif_failed"})
_STAGE = {
    "handshake_failed": "handshake",
    "transfer_setup_failed": "setup",
    "transfer_failed": "check",
    "transfer_exception": "check",
    "notification_failed": "notify",
    "push_reg_handshake_failed": "handshake",
    "push_reg_notif_failed": "notify",
    "transfer_release_failed": "release",
}


class Read(msgspec.Struct):
    """One read as this rank knows it, from its first handle to the step that reported it."""

    remote_engine_id: str = ""
    remote_request_id: str = ""
    started_ns: int = 0
    handles: int = 0
    descriptors: int = 0
    bytes: int = 0
    failed: bool = False
    done: int = 0
    """Handles whose telemetry was taken, which vLLM does once for each that succeeded."""
    mode: str = ""
    """`PUSH` or `WRITE`; empty for what decode reads itself."""
    connector: str = ""
    last_failed_call: str = ""
    """The NIXL call that raised last: tells a failed transfer from a failed look at a finished one."""


class DeferredReadStart(msgspec.Struct):
    """The start of a read; the digest of the offered blocks is computed by the sender."""

    remote_block_ids: list[list[int]]
    local_block_counts: list[int]
    read: Read
    mode: str
    handles: int
    descriptors: int
    local_block_size: int
    remote_block_size: int

    def finish(self, keyed_hash: KeyedHash) -> KvReadStart:  # noqa: ARG002 - the protocol's signature
        """Digest the offered block ids."""
        return KvReadStart(
            remote_engine_id=self.read.remote_engine_id,
            remote_request_id=self.read.remote_request_id,
            offer_digest=block_digest(self.remote_block_ids) if self.remote_block_ids else "",
            mode=self.mode,
            remote_block_counts=[len(group) for group in self.remote_block_ids],
            local_block_counts=self.local_block_counts,
            handles_posted=self.handles,
            descriptors=self.descriptors,
            local_block_size=self.local_block_size,
            remote_block_size=self.remote_block_size,
        )


class WorkerObserver:
    """Observers of one worker process. One NIXL connector worker a process is assumed, as in vLLM."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._factors: dict[str, Any] = {}
        self._reads: OrderedDict[str, Read] = OrderedDict()
        self._handles: dict[Any, str] = {}
        self._posting = threading.local()
        self.leases = LeaseObserver(emitter)
        self.nixl_probes: list[Probe] = []
        """Probes of the NIXL agent's own methods; they can only be installed once the agent exists."""
        self.failed_write: Callable[[Call, str, Read], None] | None = None
        """Told of a failure that concerns a write of push mode."""

    # Compatibility hash ------------------------------------------------------------------------------------

    def begin_capture(self, call: Call) -> Any:  # noqa: ARG002 - observers share one signature
        """Let vLLM's own `hash_factors` show us its argument for the time of one call.

        `compute_nixl_compatibility_hash` imports it inside the function, so swapping the attribute is enough
        (0.26 to 0.33). Start-up is single-threaded there.
        """
        from vllm.config import utils  # noqa: PLC0415 - only an engine process has vLLM

        original = utils.hash_factors

        def recording(factors: dict[str, Any], *arguments: Any, **named: Any) -> Any:
            self._factors = dict(factors)
            return original(factors, *arguments, **named)

        utils.hash_factors = recording
        return utils, original

    def end_capture(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """Put `hash_factors` back, however the call ended."""
        utils, original = state
        utils.hash_factors = original

    # Start-up ----------------------------------------------------------------------------------------------

    def after_registration(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """Report the configuration as this rank advertises it."""
        worker = call.instance
        emitter = self._emitter
        emitter.engine_id = str(worker.engine_id)
        emitter.process = emitter.process or "worker"
        emitter.group = emitter.group or side_channel()
        config = engine_config(worker.vllm_config, "worker", factors=self._factors, worker=worker)
        config = msgspec.structs.replace(config, reports_failed_receives=_reports_failed_receives())
        emitter.emit(config, engine_id=emitter.engine_id, rank=int(worker.tp_rank))

    def watch_agent(self, call: Call) -> None:
        """Wrap the NIXL agent's own methods, now that it exists."""
        self.leases.watch(call.instance)
        for probe in self.nixl_probes:
            probe.install(call.instance.nixl_wrapper, probe.name.rpartition(".")[2])

    # Handshake ---------------------------------------------------------------------------------------------

    def before_handshake(self, call: Call) -> int:  # noqa: ARG002
        """Remember when it began."""
        return time.monotonic_ns()

    def after_handshake(self, call: Call, started_ns: int, result: Any) -> None:
        """A peer was accepted; `result` is `(agents by rank, clock offset)`."""
        duration = seconds_since(started_ns)
        self._emit_handshake(
            call,
            outcome="ok",
            duration_seconds=duration,
            clock_offset_seconds=float(result[1]) if len(result) > 1 else None,
            clock_offset_error_seconds=duration / 2,
        )

    def failed_handshake(self, call: Call, started_ns: int, error: BaseException) -> None:
        """A peer was refused, or could not be asked."""
        message = str(error)
        self._emit_handshake(
            call,
            outcome="failed",
            failure_type=handshake_failure_type(error),
            remote_hash=hashes_in(message)[1],
            exception_class=type(error).__name__,
            exception_message=message[:MESSAGE_CHARACTERS],
            duration_seconds=seconds_since(started_ns),
        )

    def _emit_handshake(self, call: Call, **fields: Any) -> None:
        worker = call.instance
        self._emitter.emit(
            KvHandshake(
                remote_engine_id=str(call.argument("expected_engine_id", "")),
                remote_host=str(call.argument("host", "")),
                remote_port=int(call.argument("port", 0)),
                local_hash=str(worker.compat_hash or ""),
                enforce_handshake_compat=bool(worker.enforce_compat_hash),
                **fields,
            ),
            engine_id=str(worker.engine_id),
            rank=int(worker.tp_rank),
        )

    # Reads -------------------------------------------------------------------------------------------------

    def before_read(self, call: Call) -> Any:
        """Snapshot what is offered before vLLM rewrites the block ids in place."""
        worker, meta = call.instance, call.argument("meta")
        request_id = str(call.argument("req_id"))
        remote = meta.remote
        read = self._track(request_id, str(remote.engine_id), str(remote.request_id))
        self._posting.request_id = request_id
        connected = remote.engine_id in worker._remote_agents  # noqa: SLF001 - no public name
        return (
            read,
            [list(group) for group in remote.block_ids],
            [len(group) for group in meta.local_block_ids],
            connected,
            (read.handles, read.descriptors, read.failed),
        )

    def after_read(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """The read was posted, or turned out to need none."""
        self._posting.request_id = ""
        read, remote_ids, local_counts, connected, (handles, descriptors, failed) = state
        worker = call.instance
        posted = read.handles - handles
        if posted:
            mode = "read"
        elif read.failed and not failed:
            mode = "declined"
        else:
            mode = "notify_only" if connected else "deferred"
        request_id = str(call.argument("req_id"))
        self._emit_read(
            DeferredReadStart(
                remote_block_ids=remote_ids,
                local_block_counts=local_counts,
                read=read,
                mode=mode,
                handles=posted,
                descriptors=read.descriptors - descriptors,
                local_block_size=int(worker.block_size),
                remote_block_size=_remote_block_size(worker, read.remote_engine_id),
            ),
            worker,
            request_id,
            read,
        )
        if mode == "notify_only":
            self._emit_read(_ended(read, "skipped"), worker, request_id, read)
            self._reads.pop(request_id, None)

    def failed_read(self, call: Call, state: Any, error: BaseException) -> None:
        """The engine raised while posting the read; the worker usually dies of it."""
        self._posting.request_id = ""
        read = state[0]
        read.failed = True
        end = msgspec.structs.replace(
            _ended(read, "failed"),
            failure_type="exception",
            stage="setup",
            **error_fields(error),
        )
        self._emit_read(end, call.instance, str(call.argument("req_id")), read)

    def before_log_failure(self, call: Call) -> None:
        """Every failure vLLM logs with a request id ends a read, even one that never began."""
        request_id = call.argument("req_id")
        if request_id is None:
            return  # the handshake hook has it
        worker, request_id = call.instance, str(request_id)
        failure_type = str(call.argument("failure_type", ""))
        meta = call.argument("meta") or worker._recving_metadata.get(request_id)  # noqa: SLF001 - no public name
        remote = getattr(meta, "remote", None)
        read = self._track(
            request_id, str(getattr(remote, "engine_id", "")), str(getattr(remote, "request_id", ""))
        )
        if read.mode == WRITE:
            if self.failed_write is not None:
                self.failed_write(call, request_id, read)
            return
        error = call.argument("error")
        read.failed = read.failed or failure_type not in _NOT_FATAL
        end = msgspec.structs.replace(
            _ended(read, "failed"),
            failure_type=failure_type,
            stage=read.last_failed_call or _STAGE.get(failure_type, ""),
            nixl_state=str(call.kwargs.get("xfer_state", "")),
            post_processing_due=_post_processing_due(worker, read.remote_engine_id),
            **error_fields(error),
        )
        self._emit_read(end, worker, request_id, read)

    def before_failed_transfer(self, call: Call) -> None:
        """The engine gives up a transfer. When nothing was logged for it, this is the only trace ("declining")."""
        request_id, worker = str(call.argument("req_id")), call.instance
        meta = worker._recving_metadata.get(request_id)  # noqa: SLF001 - no public name
        remote = getattr(meta, "remote", None)
        read = self._track(
            request_id, str(getattr(remote, "engine_id", "")), str(getattr(remote, "request_id", ""))
        )
        if read.failed or read.mode == WRITE:
            return
        read.failed = True
        end = msgspec.structs.replace(_ended(read, "failed"), failure_type="declined", stage="setup")
        self._emit_read(end, worker, request_id, read)

    def after_results(self, call: Call, state: Any, result: Any) -> None:
        """The worker tells the scheduler which requests it finished sending and receiving. Runs every engine step."""
        sent, received = (
            result if isinstance(result, tuple) else (result.finished_sending, result.finished_recving)
        )
        if not sent and not received:
            return
        worker = call.instance.connector_worker
        if sent:
            self.leases.ended(worker, sent, state or frozenset())
        for request_id in received or ():
            read = self._reads.pop(request_id, None)
            if read is not None and not read.failed:
                # Received without a handle that was seen: something is not watched, and that is no evidence of arrival.
                # In push mode the handles are prefill's, and vLLM counts the notices of the writers.
                outcome = "ok" if read.handles or read.mode == PUSH else "skipped"
                self._emit_read(_ended(read, outcome), worker, request_id, read)

    # The NIXL agent's own methods -----------------------------------------------------------------------------

    def after_make_transfer(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """A read was prepared: `result` is its handle."""
        request_id = getattr(self._posting, "request_id", "")
        read = self._reads.get(request_id)
        if read is None:
            return
        read.handles += 1
        local_indices = call.args[2] if len(call.args) > 2 else ()
        read.descriptors += len(local_indices)
        if len(self._handles) < MAX_TRACKED:
            self._handles[result] = request_id

    def after_telemetry(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """A handle is done: `result` holds bytes and times (NIXL `nixlXferTelemetry`)."""
        read = self._read_of_handle(call)
        if read is not None:
            read.bytes += int(getattr(result, "totalBytes", 0))
            read.done += 1

    def failed_telemetry(self, call: Call, state: Any, error: BaseException) -> None:  # noqa: ARG002
        """Looking at a finished transfer failed: the bytes had arrived."""
        read = self._read_of_handle(call)
        if read is not None:
            read.last_failed_call = "telemetry"

    def after_release(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """A handle is gone."""
        self._handles.pop(call.args[0] if call.args else None, None)

    def failed_release(self, call: Call, state: Any, error: BaseException) -> None:  # noqa: ARG002
        """Releasing a handle failed."""
        read = self._read_of_handle(call)
        if read is not None:
            read.last_failed_call = "release"

    # ---------------------------------------------------------------------------------------------------------

    def _read_of_handle(self, call: Call) -> Read | None:
        request_id = self._handles.get(call.args[0]) if call.args else None
        return self._reads.get(request_id) if request_id is not None else None

    def track(self, request_id: str, remote_engine_id: str, remote_request_id: str) -> Read:
        """What is known of a request's transfer, from now on if it was unknown."""
        return self._track(request_id, remote_engine_id, remote_request_id)

    def forget(self, request_id: str, mode: str) -> Read | None:
        """Stop tracking a transfer of that mode, and give what was known of it."""
        read = self._reads.get(request_id)
        return self._reads.pop(request_id, None) if read is not None and read.mode == mode else None

    def posting(self, request_id: str) -> None:
        """Handles made in this thread belong to that request from now on; to none when it is empty."""
        self._posting.request_id = request_id

    def _track(self, request_id: str, remote_engine_id: str, remote_request_id: str) -> Read:
        read = self._reads.get(request_id)
        if read is None:
            read = Read(started_ns=time.monotonic_ns())
            remember(self._reads, request_id, read)
        read.remote_engine_id = read.remote_engine_id or remote_engine_id
        read.remote_request_id = read.remote_request_id or remote_request_id
        return read

    def _emit_read(self, attributes: KvReadEnd | Deferred, worker: Any, request_id: str, read: Read) -> None:
        self._emitter.emit(
            attributes,
            engine_id=str(worker.engine_id),
            rank=int(worker.tp_rank),
            request_id=request_id,
            transfer_id=transfer_id_of(read.remote_engine_id, read.remote_request_id),
        )


def handshake_failure_type(error: BaseException) -> str:
    """Kind of a failed handshake by exception class and message (`NixlBaseConnectorWorker._nixl_handshake`)."""
    classes = frozenset(base.__name__ for base in type(error).__mro__)
    return failure_type_of(classes, type(error).__module__, str(error))


def _ended(read: Read, outcome: str) -> KvReadEnd:
    return KvReadEnd(
        remote_engine_id=read.remote_engine_id,
        remote_request_id=read.remote_request_id,
        outcome=outcome,
        mode=read.mode,
        connector=read.connector,
        duration_seconds=seconds_since(read.started_ns),
        bytes=read.bytes,
        descriptors=read.descriptors,
        handles=read.handles,
    )


def _remote_block_size(worker: Any, remote_engine_id: str) -> int:
    try:
        return int(worker.transfer_topo.get_engine_info(remote_engine_id).remote_block_size)
    except Exception:  # noqa: BLE001 - vLLM raises in several ways for an engine it does not know yet
        return 0


def _post_processing_due(worker: Any, remote_engine_id: str) -> bool:
    """Whether received blocks would still have been copied or converted (`get_finished` after 0.26)."""
    remote_block_size = _remote_block_size(worker, remote_engine_id)
    return bool(
        getattr(worker, "use_host_buffer", False)
        or getattr(worker, "enable_permute_local_kv", False)
        or getattr(worker, "enable_heterogeneous_attn_post_process", False)
        or (remote_block_size and remote_block_size != worker.block_size)
    )


def _reports_failed_receives() -> bool:
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import (  # noqa: PLC0415
        NixlBaseConnector,
    )

    return hasattr(NixlBaseConnector, "get_transfer_results")
