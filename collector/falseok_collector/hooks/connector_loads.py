"""What the engine core knows of KV loaded by connectors other than NIXL: which request, how much, and how it ended.

The scheduler's side of a connector names requests; the worker's side mostly does not. A load that the request waits
for ends when the scheduler is told that it was received on all ranks; one that is part of a step ends with that
step. Sources: `KVConnectorBase_V1`, `MultiConnector` and `Scheduler` of vLLM 0.26 to 0.33.
"""

import time
from collections import OrderedDict, deque
from typing import Any

import msgspec

from falseok_collector.attributes import KvInvalidBlocks, KvReadEnd, KvReadStart, SchedWaitRemote
from falseok_collector.emitter import Emitter
from falseok_collector.hooks.common import error_fields, remember, seconds_since
from falseok_collector.hooks.parameters import read_parameters
from falseok_collector.hooks.probe import Call
from falseok_collector.hooks.scheduler import SchedulerObserver, Tracked

MODE = "other"
_MAX_STEPS = 1_024


class Load(msgspec.Struct):
    """One load under way."""

    connector: str
    transfer_id: str
    started_ns: int
    in_step: bool
    """Part of a step of the model (a synchronous loader): the request does not wait."""
    failed: bool = False


class LoadObserver:
    """Observers of one engine core's connector. Everything runs on the engine's main thread."""

    def __init__(self, emitter: Emitter, scheduler: SchedulerObserver) -> None:
        self._emitter = emitter
        self._scheduler = scheduler
        self._matched: OrderedDict[str, tuple[int, bool]] = OrderedDict()
        self._loads: OrderedDict[str, Load] = OrderedDict()
        self._next_step: list[str] = []
        self._steps: deque[list[str]] = deque(maxlen=_MAX_STEPS)

    # Calls of one connector, under MultiConnector of the child --------------------------------------------------

    def after_matched(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002 - one signature
        """The connector was asked what it has; asked again and again while a request waits for room."""
        tokens, waits = result
        if not tokens:
            return
        request_id = call.argument("request").request_id
        remember(self._matched, request_id, (int(call.argument("num_computed_tokens") or 0), bool(waits)))
        self._matched.move_to_end(request_id)

    def before_allocated(self, call: Call) -> None:
        """Blocks are there; with external tokens this connector is the one that fills them."""
        request = call.argument("request")
        external = int(call.argument("num_external_tokens") or 0)
        if external <= 0:
            return
        request_id = request.request_id
        computed, waits = self._matched.pop(request_id, (0, False))
        connector = type(call.instance).__name__
        load = Load(
            connector=connector,
            transfer_id=read_parameters(request.kv_transfer_params).transfer_id,
            started_ns=time.monotonic_ns(),
            in_step=not waits,
        )
        remember(self._loads, request_id, load)
        self._loads.move_to_end(request_id)
        counts = [len(group) for group in call.argument("blocks").blocks]
        if waits:
            tracked = self._scheduler.park(request_id, external)
            wait = SchedWaitRemote(
                external_tokens=external,
                connector=connector,
                local_hit_tokens=computed,
                prompt_tokens=int(request.num_prompt_tokens),
                block_counts=counts,
            )
            self._emit(wait, request_id, load.transfer_id, tracked)
        else:
            self._next_step.append(request_id)
        start = KvReadStart(
            mode=MODE, connector=connector, external_tokens=external, local_block_counts=counts
        )
        self._emit(start, request_id, load.transfer_id)

    # Calls of the connector the scheduler holds ------------------------------------------------------------------

    def before_step(self, call: Call) -> None:  # noqa: ARG002
        """A step is scheduled: its metadata is built once, after all its blocks were allocated."""
        self._steps.append(self._next_step)
        self._next_step = []

    def after_step(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """The output of the oldest step was processed: vLLM takes the connector's cache events at its end.

        Steps are processed in the order in which they were scheduled (`EngineCore.step_with_batch_queue`).
        """
        for request_id in self._steps.popleft() if self._steps else ():
            self._end(request_id)

    def before_output(self, call: Call) -> None:
        """The workers' results of a step: received on all ranks, whether they succeeded or not."""
        output = call.argument("connector_output")
        for request_id in getattr(output, "failed_recving", None) or ():
            self.fail(request_id)
        for request_id in output.finished_recving or ():
            self._end(request_id)

    def before_finish(self, call: Call) -> None:
        """A request leaves before its step was processed to the end, as with one token of output."""
        request = call.argument("request")
        self._matched.pop(request.request_id, None)
        load = self._loads.get(request.request_id)
        if load is not None and load.in_step:
            aborted = "ABORTED" in request.status.name
            self._end(request.request_id, outcome="skipped" if aborted else "ok")

    # Failures ----------------------------------------------------------------------------------------------------

    def fail(self, request_id: str) -> str:
        """Remember that a load failed; the connector's class, empty where none of these loads for the request."""
        load = self._loads.get(request_id)
        if load is None:
            return ""
        load.failed = True
        return load.connector

    def before_invalid_blocks(self, call: Call) -> set[str]:
        """Which requests the scheduler had already marked."""
        return set(call.instance.failed_recving_kv_req_ids)

    def after_invalid_blocks(self, call: Call, marked: set[str], result: Any) -> None:
        """The requests that had counted on blocks which a connector could not fill (NIXL included)."""
        scheduler = call.instance
        recompute = bool(scheduler.recompute_kv_load_failures)
        for request_id in set(result) | (set(scheduler.failed_recving_kv_req_ids) - marked):
            self._emit(
                KvInvalidBlocks(
                    invalid_blocks=len(call.argument("invalid_block_ids") or ()),
                    outcome="recompute" if recompute else "failed",
                    policy="recompute" if recompute else "fail",
                    connector=self.fail(request_id),
                ),
                request_id,
            )

    def failed_step(self, error: BaseException, rank: int, connector: str) -> bool:
        """A worker raised while loading: the requests of the steps under way are concerned, where this process knows them."""
        known = False
        for request_id in [one for step in self._steps for one in step]:
            load = self._loads.get(request_id)
            if load is not None and load.connector == connector and not load.failed:
                load.failed = known = True
                self._emit(raised(error, connector, load.started_ns), request_id, load.transfer_id, rank=rank)
        return known

    # -------------------------------------------------------------------------------------------------------------

    def _end(self, request_id: str, outcome: str = "ok") -> None:
        load = self._loads.pop(request_id, None)
        if load is None:
            return
        end = KvReadEnd(
            outcome="failed" if load.failed else outcome,
            failure_type="load_failed" if load.failed else "",
            stage="load" if load.failed else "",
            connector=load.connector,
            mode=MODE,
            duration_seconds=seconds_since(load.started_ns),
        )
        self._emit(end, request_id, load.transfer_id)

    def _emit(
        self,
        attributes: KvReadStart | KvReadEnd | KvInvalidBlocks | SchedWaitRemote,
        request_id: str,
        transfer_id: str = "",
        tracked: Tracked | None = None,
        rank: int = -1,
    ) -> None:
        self._emitter.emit(
            attributes,
            engine_id=self._emitter.engine_id,
            rank=rank,
            request_id=request_id,
            transfer_id=transfer_id,
            traceparent=tracked.traceparent if tracked else "",
        )


def raised(error: BaseException, connector: str, started_ns: int = 0) -> KvReadEnd:
    """The end of a load that raised."""
    return KvReadEnd(
        outcome="failed",
        failure_type="exception",
        stage="load",
        connector=connector,
        mode=MODE,
        duration_seconds=seconds_since(started_ns) if started_ns else 0.0,
        **error_fields(error),
    )
