"""What an engine core shows: admission, waiting for remote KV, resuming, finishing, offers and releases.

Sources: `nixl.connector.NixlBaseConnector` and `vllm.v1.core.sched.scheduler.Scheduler` of vLLM 0.26 to 0.33.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec

from falseok_collector.attributes import (
    MAX_BLOCK_IDS,
    KvOffer,
    KvRelease,
    SchedAdmit,
    SchedFinish,
    SchedResume,
    SchedWaitRemote,
)
from falseok_collector.deferred import Deferred
from falseok_collector.emitter import Emitter
from falseok_collector.engine_config import engine_config, side_channel
from falseok_collector.hashing import KeyedHash, block_digest
from falseok_collector.hooks.probe import Call
from falseok_collector.identity import remote_transfer_id, transfer_id_of

_MAX_TRACKED = 65_536


class Tracked(msgspec.Struct):
    """What the observers remember of one request between its events."""

    leg: str
    transfer_id: str
    traceparent: str
    admitted_ns: int
    expected_tokens: int = 0
    waiting_since_ns: int = 0
    offered_ns: int = 0
    prefill_stats: Any = None
    """vLLM's own `PrefillStats` of the request; the engine lets go of it with the first token."""
    kept_after_failure: int = 0
    """Tokens the scheduler went on with after a failed receive; 0 when it began anew."""

    def cached_tokens(self) -> int:
        """Prompt tokens that were not computed here, as far as vLLM counted them: not again after a failure."""
        counted = int(getattr(self.prefill_stats, "num_cached_tokens", 0))
        return min(counted, self.kept_after_failure) if self.kept_after_failure else counted


class DeferredHash(msgspec.Struct):
    """Attributes that still lack a digest of block ids or a hash of token ids."""

    attributes: SchedAdmit | SchedWaitRemote | KvOffer
    token_ids: Sequence[int] | None
    tokens: int
    block_ids: list[list[int]] | None = None

    def finish(self, keyed_hash: KeyedHash) -> SchedAdmit | SchedWaitRemote | KvOffer:
        """Compute digests and hashes; the list of token ids was not copied and may have been cut since."""
        changes: dict[str, Any] = {}
        if self.token_ids is not None and (token_hash := keyed_hash.of_tokens(self.token_ids, self.tokens)):
            changes = {
                "token_ids_hash": token_hash,
                "tokens_hashed": self.tokens,
                "salt_id": keyed_hash.salt_id,
            }
        if self.block_ids is not None:
            changes |= self._describe_blocks(self.block_ids)
        return msgspec.structs.replace(self.attributes, **changes)

    def _describe_blocks(self, block_ids: list[list[int]]) -> dict[str, Any]:
        digest = block_digest(block_ids)
        if isinstance(self.attributes, SchedAdmit):
            return {"offer_digest": digest}
        kept, truncated = bounded(block_ids, MAX_BLOCK_IDS)
        return {"digest": digest, "block_ids": kept, "truncated": truncated}


class SchedulerObserver:
    """Observers of one engine core process."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._requests: OrderedDict[str, Tracked] = OrderedDict()

    def after_scheduler(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """The engine core has its scheduler: report its configuration."""
        vllm_config = call.instance.vllm_config
        if vllm_config.kv_transfer_config is None:
            return
        emitter = self._emitter
        emitter.process = "engine_core"
        emitter.engine_id = str(vllm_config.kv_transfer_config.engine_id)
        emitter.group = emitter.group or side_channel()
        emitter.emit(engine_config(vllm_config, "engine_core"), engine_id=emitter.engine_id)

    def before_new_request(self, call: Call) -> None:
        """A request enters, before the connector touches its parameters."""
        request = call.argument("request")
        parameters = request.kv_transfer_params or {}
        leg = "cleanup" if getattr(request, "abort_immediately", False) else _leg(parameters)
        own = transfer_id_of(str(call.instance.engine_id), request.request_id)
        tracked = Tracked(
            leg=leg,
            transfer_id=own if leg == "prefill" else remote_transfer_id(parameters),
            traceparent=(request.trace_headers or {}).get("traceparent", ""),
            admitted_ns=time.monotonic_ns(),
            prefill_stats=request.prefill_stats,
        )
        self._requests[request.request_id] = tracked
        if len(self._requests) > _MAX_TRACKED:
            self._requests.popitem(last=False)
        remote_tokens = int(parameters.get("remote_num_tokens") or 0)
        remote_blocks = parameters.get("remote_block_ids")
        admit = SchedAdmit(
            leg=leg,
            remote_engine_id=str(parameters.get("remote_engine_id") or ""),
            remote_request_id=str(parameters.get("remote_request_id") or ""),
            remote_num_tokens=remote_tokens,
            prompt_tokens=request.num_prompt_tokens,
            lora=_lora(request),
        )
        blocks = [list(group) for group in remote_blocks] if leg == "decode" and remote_blocks else None
        self._emit(
            DeferredHash(admit, request.prompt_token_ids, _comparable_tokens(request, remote_tokens), blocks),
            call,
            request.request_id,
            tracked,
        )

    def before_blocks(self, call: Call) -> None:
        """Blocks were allocated; with external tokens the request is now parked."""
        external = int(call.argument("num_external_tokens") or 0)
        if external <= 0:
            return
        request, blocks = call.argument("request"), call.argument("blocks")
        parameters = request.kv_transfer_params or {}
        tracked = self._requests.get(request.request_id)
        if tracked is None:
            return
        tracked.expected_tokens = external
        tracked.waiting_since_ns = time.monotonic_ns()
        remote_tokens = int(parameters.get("remote_num_tokens") or 0)
        name = type(call.instance).__name__
        wait = SchedWaitRemote(
            external_tokens=external,
            connector=name if name == "NixlPushConnector" else "",
            # The pull connector asks for everything that is not in the local prefix cache.
            local_hit_tokens=max(request.num_prompt_tokens - external, 0),
            prompt_tokens=request.num_prompt_tokens,
            block_counts=[len(group) for group in blocks.blocks],
            remote_num_tokens=remote_tokens,
        )
        self._emit(
            DeferredHash(wait, request.prompt_token_ids, _comparable_tokens(request, remote_tokens)),
            call,
            request.request_id,
            tracked,
        )

    def park(self, request_id: str, external_tokens: int) -> Tracked | None:
        """A request now waits for what another connector than NIXL loads; None when its admission was not seen."""
        tracked = self._requests.get(request_id)
        if tracked is not None:
            tracked.expected_tokens = external_tokens
            tracked.waiting_since_ns = time.monotonic_ns()
        return tracked

    def before_resume(self, call: Call) -> tuple[bool, int]:
        """The scheduler takes a request out of the wait: does it know that the receive failed?"""
        request = call.argument("request")
        failed = request.request_id in call.instance.failed_recving_kv_req_ids
        return failed, int(request.num_computed_tokens)

    def after_resume(self, call: Call, state: tuple[bool, int], result: Any) -> None:  # noqa: ARG002
        """The branch is taken."""
        failed, computed_before = state
        request = call.argument("request")
        tracked = self._requests.get(request.request_id)
        expected = tracked.expected_tokens if tracked else 0
        waiting_since = tracked.waiting_since_ns if tracked else 0
        if tracked is not None:
            tracked.kept_after_failure = int(request.num_computed_tokens) if failed else 0
        resume = SchedResume(
            expected_tokens=expected,
            computed_tokens_before=computed_before,
            computed_tokens_after=int(request.num_computed_tokens),
            waited_seconds=(time.monotonic_ns() - waiting_since) / 1e9 if waiting_since else 0.0,
            scheduler_marked_failed=failed,
            policy="recompute" if call.instance.recompute_kv_load_failures else "fail",
            branch="recompute" if failed else "resume",
        )
        self._emit(resume, call, request.request_id, tracked)

    def before_finish(self, call: Call) -> None:
        """A request is done, its blocks are not freed yet."""
        request = call.argument("request")
        tracked = self._requests.get(request.request_id)
        reason = request.get_finished_reason()
        finish = SchedFinish(
            leg=tracked.leg if tracked else _leg(request.kv_transfer_params or {}),
            status=request.status.name,
            finish_reason=str(reason) if reason is not None else "",
            output_tokens=int(request.num_output_tokens),
            prompt_tokens=int(request.num_prompt_tokens),
            cached_tokens=tracked.cached_tokens() if tracked else 0,
            preemptions=int(request.num_preemptions),
            nans_in_logits=int(getattr(request, "num_nans_in_logits", 0) or 0),
            engine_seconds=(time.monotonic_ns() - tracked.admitted_ns) / 1e9 if tracked else 0.0,
        )
        self._emit(finish, call, request.request_id, tracked)

    def after_finish(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """What the connector answered: with blocks to hand over, this is an offer."""
        request = call.argument("request")
        kept, parameters = result
        blocks = (parameters or {}).get("remote_block_ids")
        tracked = self._requests.get(request.request_id)
        if not kept or not blocks or tracked is None:
            self._requests.pop(request.request_id, None)
            return
        tracked.offered_ns = time.monotonic_ns()
        remote_tokens = int(parameters.get("remote_num_tokens") or 0)
        offer = KvOffer(
            block_counts=[len(group) for group in blocks],
            computed_tokens=int(request.num_computed_tokens),
            prompt_tokens=int(request.num_prompt_tokens),
            output_tokens=int(request.num_output_tokens),
            remote_num_tokens=remote_tokens,
            lora=_lora(request),
        )
        tokens = remote_tokens or int(request.num_computed_tokens)
        self._emit(
            DeferredHash(offer, request.all_token_ids, tokens, [list(group) for group in blocks]),
            call,
            request.request_id,
            tracked,
            transfer_id=transfer_id_of(str(call.instance.engine_id), request.request_id),
        )

    def before_free(self, call: Call) -> None:
        """The pool takes blocks back; only those that had been offered are told."""
        request_id = call.argument("request").request_id
        tracked = self._requests.get(request_id)
        if tracked is None or not tracked.offered_ns:
            return
        self._requests.pop(request_id, None)
        self._emitter.emit(
            KvRelease(offered_seconds=(time.monotonic_ns() - tracked.offered_ns) / 1e9),
            request_id=request_id,
            transfer_id=transfer_id_of(self._emitter.engine_id, request_id),
            traceparent=tracked.traceparent,
        )

    def _emit(
        self,
        attributes: SchedResume | SchedFinish | Deferred,
        call: Call,
        request_id: str,
        tracked: Tracked | None,
        transfer_id: str = "",
    ) -> None:
        self._emitter.emit(
            attributes,
            engine_id=str(getattr(call.instance, "engine_id", "") or self._emitter.engine_id),
            request_id=request_id,
            transfer_id=transfer_id or (tracked.transfer_id if tracked else ""),
            traceparent=tracked.traceparent if tracked else "",
        )


def bounded(block_ids: list[list[int]], most: int) -> tuple[list[list[int]], bool]:
    """At most `most` ids over all groups, each group cut at its end, and whether anything was cut."""
    kept: list[list[int]] = []
    left = most
    for group in block_ids:
        kept.append(group[:left])
        left -= len(kept[-1])
    return kept, sum(map(len, block_ids)) > most


def _leg(parameters: dict[str, Any]) -> str:
    if parameters.get("do_remote_decode"):
        return "prefill"
    return "decode" if parameters.get("do_remote_prefill") else "local"


def _comparable_tokens(request: Any, remote_tokens: int) -> int:
    """How many leading token ids both sides can hash: what prefill computed, where it said so."""
    return min(remote_tokens, request.num_prompt_tokens) if remote_tokens else int(request.num_prompt_tokens)


def _lora(request: Any) -> str:
    lora = getattr(request, "lora_request", None)
    return str(getattr(lora, "lora_name", "")) if lora is not None else ""
