"""What a NIXL worker shows in push mode, where prefill writes into decode's blocks.

Decode registers its blocks and waits: it owns no handle, and a receipt is complete when the expected notices of all
writers came. Prefill matches registrations with finished requests and writes, in the thread `nixl-push-writer`;
results are collected on the engine's thread. Emitting is safe from both. Source: `nixl.push_worker` of vLLM 0.26 to
0.33.
"""

import time
from typing import Any

import msgspec

from falseok_collector.attributes import KvReadStart, KvWriteEnd, KvWriteStart
from falseok_collector.emitter import Emitter
from falseok_collector.hooks.common import error_fields, seconds_since
from falseok_collector.hooks.probe import Call
from falseok_collector.hooks.worker import PUSH, WRITE, Read, WorkerObserver
from falseok_collector.identity import transfer_id_of


class PushObserver:
    """Observers of one worker process in push mode; its transfers are tracked beside the reads of pull mode."""

    def __init__(self, emitter: Emitter, worker: WorkerObserver) -> None:
        self._emitter = emitter
        self._worker = worker
        worker.failed_write = self.failed_write

    # Decode --------------------------------------------------------------------------------------------------

    def before_step(self, call: Call) -> None:
        """A step begins: decode learns what it will be sent, prefill what it may have to send. Mostly neither."""
        worker, metadata = call.instance, call.argument("metadata")
        for request_id, meta in metadata.reqs_to_recv.items():
            counts = [len(group) for group in meta.local_block_ids]
            if any(counts):  # nothing is registered for a request that left before it got blocks
                self._expect(worker, str(request_id), meta.remote, counts)
        for request_id in metadata.push_finished_blocks:
            self._worker.track(str(request_id), "", "").mode = WRITE

    def _expect(self, worker: Any, request_id: str, remote: Any, counts: list[int]) -> None:
        read = self._worker.track(request_id, str(remote.engine_id), str(remote.request_id))
        read.mode, read.connector = PUSH, "NixlPushConnector"
        self._emitter.emit(
            KvReadStart(
                remote_engine_id=read.remote_engine_id,
                remote_request_id=read.remote_request_id,
                mode=PUSH,
                connector=read.connector,
                local_block_counts=counts,
                local_block_size=int(worker.block_size),
            ),
            engine_id=str(worker.engine_id),
            rank=int(worker.tp_rank),
            request_id=request_id,
            transfer_id=transfer_id_of(read.remote_engine_id, read.remote_request_id),
        )

    # Prefill -------------------------------------------------------------------------------------------------

    def before_write(self, call: Call) -> tuple[Read, int, int, bool]:
        """Decode's registration met a finished request. Called again when a handshake had to come first."""
        data = call.argument("registration_data")
        request_id = str(call.argument("request_id"))
        write = self._worker.track(request_id, str(data["decode_engine_id"]), str(data["request_id"]))
        write.mode = WRITE
        if not write.handles:
            write.started_ns = time.monotonic_ns()
        self._worker.posting(request_id)
        return write, write.handles, write.descriptors, write.failed

    def after_write(self, call: Call, state: tuple[Read, int, int, bool], result: Any) -> None:  # noqa: ARG002
        """Handles were posted, or not yet, or not at all."""
        self._worker.posting("")
        write, handles, descriptors, failed = state
        if write.handles == handles:
            # Only 0.26 makes the handshake right here; what it logs then names no request.
            if (
                hasattr(call.instance, "_ensure_d_handshake")
                and not failed
                and call.argument("local_block_ids")
            ):
                self._fail(call, write, KvWriteEnd(failure_type="push_handshake_failed"))
            return
        start = KvWriteStart(
            remote_engine_id=write.remote_engine_id,
            remote_request_id=write.remote_request_id,
            local_block_counts=_counts(call.argument("local_block_ids")),
            remote_block_counts=_counts(call.argument("registration_data")["local_block_ids"]),
            handles_posted=write.handles - handles,
            descriptors=write.descriptors - descriptors,
        )
        self._emit(start, call.instance, str(call.argument("request_id")))

    def raised_in_write(self, call: Call, state: tuple[Read, int, int, bool], error: BaseException) -> None:
        """The writer thread survives it, the transfer does not: prefill and decode disagree on the blocks."""
        self._worker.posting("")
        self._fail(call, state[0], with_error(KvWriteEnd(failure_type="exception"), error))

    def failed_write(self, call: Call, request_id: str, write: Read) -> None:
        """A failure that vLLM logs for a request this side writes for."""
        write.failed = True
        end = KvWriteEnd(failure_type=str(call.argument("failure_type", "")))
        self._end(call.instance, request_id, write, "failed", with_error(end, call.argument("error")))

    def after_results(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """Requests whose blocks this rank no longer holds for decode. Runs every engine step."""
        for request_id in result[0] if isinstance(result, tuple) else result.finished_sending:
            write = self._worker.forget(request_id, WRITE)
            if write is None or write.failed:
                continue
            self._end(call.instance, request_id, write, _outcome(write), KvWriteEnd())

    # ---------------------------------------------------------------------------------------------------------

    def _fail(self, call: Call, write: Read, end: KvWriteEnd) -> None:
        write.failed = True
        self._end(call.instance, str(call.argument("request_id")), write, "failed", end)

    def _end(self, worker: Any, request_id: str, write: Read, outcome: str, end: KvWriteEnd) -> None:
        whole = msgspec.structs.replace(
            end,
            remote_engine_id=write.remote_engine_id,
            remote_request_id=write.remote_request_id,
            outcome=outcome,
            duration_seconds=seconds_since(write.started_ns),
            bytes=write.bytes,
            descriptors=write.descriptors,
            handles=write.handles,
        )
        self._emit(whole, worker, request_id)

    def _emit(self, attributes: KvWriteStart | KvWriteEnd, worker: Any, request_id: str) -> None:
        engine_id = str(worker.engine_id)
        self._emitter.emit(
            attributes,
            engine_id=engine_id,
            rank=int(worker.tp_rank),
            request_id=request_id,
            transfer_id=transfer_id_of(engine_id, request_id),
        )


def with_error(end: KvWriteEnd, error: BaseException | None) -> KvWriteEnd:
    """The end with the exception that caused it."""
    return msgspec.structs.replace(end, **error_fields(error))


def _outcome(write: Read) -> str:
    """How a write ended that vLLM lets go of: done, never begun, or let go of before it was done."""
    if not write.handles:
        return "unmatched"
    return "ok" if write.done >= write.handles else "expired"


def _counts(block_ids: Any) -> list[int]:
    """Blocks per group; one group may come as a flat list (`_as_grouped_block_ids`)."""
    if block_ids and not isinstance(block_ids[0], list | tuple):
        return [len(block_ids)]
    return [len(group) for group in block_ids]
