"""How long a prefill worker keeps the blocks it offered, and who told it that they were read.

Sources: `nixl.pull_worker.NixlPullConnectorWorker._get_new_notifs`, `nixl.base_worker.NixlBaseConnectorWorker`
(`_reqs_to_send`, `_reap_expired_send_leases`, `_replicated_pcp_done_sending`) of vLLM 0.26 to 0.33.
A completion reaches prefill only when decode polls, so a late notice alone proves nothing.
"""

from collections import OrderedDict
from typing import Any

from falseok_collector.attributes import KvLeaseEnd, KvNotice
from falseok_collector.emitter import Emitter
from falseok_collector.hooks.common import remember
from falseok_collector.hooks.probe import Call
from falseok_collector.identity import transfer_id_of

_MAX_NOTICES_A_STEP = 1_000
_COUNT_DIGITS = 9
_OTHER_MESSAGES = (b"HB:", b"PUSH_REG:")


class LeaseObserver:
    """Observers of the offers of one worker process."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._worker: Any = None
        self._notices: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Completion notices had and expected, by request."""
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._read: frozenset[str] = frozenset()

    def watch(self, worker: Any) -> None:
        """Notices are looked at with this worker's books in hand."""
        self._worker = worker

    def after_notices(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """What arrived since the last step, before vLLM books it: `result` maps agents to messages."""
        if not result or _pushes(self._worker):
            return
        left = _MAX_NOTICES_A_STEP
        for messages in result.values():
            for message in messages[:left]:
                if not message.startswith(_OTHER_MESSAGES):
                    self._notice(message)
            left -= min(len(messages), left)

    def after_booking(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """The requests whose consumers have all told; every other one that ends in this step was not read out."""
        self._read = frozenset(result) if result else frozenset()

    def before_results(self, call: Call) -> frozenset[str]:
        """Blocks that another rank hands out need no reader here (0.30 and later)."""
        worker = getattr(call.instance, "connector_worker", None)
        return frozenset(getattr(worker, "_replicated_pcp_done_sending", ()))

    def ended(self, worker: Any, request_ids: Any, replicated: frozenset[str]) -> None:
        """The worker tells the scheduler that it is done with these offers."""
        if _pushes(worker):
            return
        for request_id in request_ids:
            if request_id in self._read:
                reason = "read"
            else:
                reason = "replicated" if request_id in replicated else "expired"
            had, expected = self._notices.pop(request_id, (0, 0))
            remember(self._ended, request_id, None)
            end = KvLeaseEnd(reason=reason, notifications=had, notifications_expected=expected)
            self._emit(end, worker, request_id)

    def _notice(self, message: bytes) -> None:
        """`<prefill request id>:<consumers>`."""
        name, _, count = message.rpartition(b":")
        request_id = name.decode("utf-8", "replace")
        worker = self._worker
        if request_id in worker._reqs_to_send or request_id in worker._reqs_to_process:  # noqa: SLF001 - no public name
            had, _ = self._notices.get(request_id, (0, 0))
            remember(
                self._notices,
                request_id,
                (had + 1, int(count) if count.isdigit() and len(count) < _COUNT_DIGITS else 0),
            )
            return
        self._emit(KvNotice(known=request_id in self._ended), worker, request_id)

    def _emit(self, attributes: KvLeaseEnd | KvNotice, worker: Any, request_id: str) -> None:
        self._emitter.emit(
            attributes,
            engine_id=str(worker.engine_id),
            rank=int(worker.tp_rank),
            request_id=request_id,
            transfer_id=transfer_id_of(str(worker.engine_id), request_id),
        )


def _pushes(worker: Any) -> bool:
    """In push mode notices run the other way, and `kv.write.end` tells how a write ended."""
    return hasattr(worker, "_sending_transfers")
