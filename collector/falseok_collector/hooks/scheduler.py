"""What an engine core shows: admission, waiting for remote KV, resuming, finishing, offers and releases.

Sources: `nixl.connector.NixlBaseConnector` and `vllm.v1.core.sched.scheduler.Scheduler` of vLLM 0.26 to 0.33.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from falseok_collector.attributes import (
    MAX_BLOCK_IDS,
    KvOffer,
    KvRelease,
    SchedAdmit,
    SchedFinish,
    SchedPreempt,
    SchedResume,
    SchedWaitRemote,
)
from falseok_collector.deferred import Deferred
from falseok_collector.emitter import Emitter
from falseok_collector.engine_config import engine_config, side_channel
from falseok_collector.hashing import KeyedHash, block_digest
from falseok_collector.hooks.blocks import BlockObserver
from falseok_collector.hooks.common import remember, seconds_since
from falseok_collector.hooks.parameters import read_parameters
from falseok_collector.hooks.probe import Call
from falseok_collector.identity import transfer_id_of

_Item = TypeVar("_Item")


class Tracked(msgspec.Struct):
    """What the observers remember of one request between its events."""

    leg: str
    transfer_id: str
    traceparent: str
    admitted_ns: int
    admit: SchedAdmit
    allocated_ns: int = 0
    expected_tokens: int = 0
    waiting_since_ns: int = 0
    offered_ns: int = 0
    readmission: str = ""
    """Why its next blocks are not its first ones."""
    drafted_tokens: int = 0
    accepted_tokens: int = 0
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
    hit_blocks: list[list[Any]] | None = None
    """Blocks of the local hit; a block keeps its id for life, so that it can be read later."""

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
        if self.hit_blocks is not None:
            ranges = [_ranges([block.block_id for block in group]) for group in self.hit_blocks]
            kept, truncated = bounded(ranges, MAX_BLOCK_IDS)
            changes |= {"local_hit_block_ids": kept, "truncated": truncated}
        return msgspec.structs.replace(self.attributes, **changes)

    def _describe_blocks(self, block_ids: list[list[int]]) -> dict[str, Any]:
        if isinstance(self.attributes, SchedAdmit):
            try:
                return {"offer_digest": block_digest(block_ids)}
            except (OverflowError, TypeError, ValueError, RecursionError):  # these came from a client
                return {"malformed": [*self.attributes.malformed, "remote_block_ids"]}
        digest = block_digest(block_ids)
        kept, truncated = bounded(block_ids, MAX_BLOCK_IDS)
        return {"digest": digest, "block_ids": kept, "truncated": truncated}


class SchedulerObserver:
    """Observers of one engine core process."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._requests: OrderedDict[str, Tracked] = OrderedDict()
        self.blocks = BlockObserver(emitter)

    def after_scheduler(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """The engine core has its scheduler: report its configuration."""
        vllm_config = call.instance.vllm_config
        if vllm_config.kv_transfer_config is None:
            return
        emitter = self._emitter
        emitter.process = "engine_core"
        emitter.engine_id = str(vllm_config.kv_transfer_config.engine_id)
        emitter.group = emitter.group or side_channel()
        self.blocks.use_pool_of(call.instance)
        emitter.emit(engine_config(vllm_config, "engine_core"), engine_id=emitter.engine_id)

    def before_new_request(self, call: Call) -> None:
        """A request enters, before the connector touches its parameters."""
        request = call.argument("request")
        parameters = read_parameters(request.kv_transfer_params)
        leg = "cleanup" if getattr(request, "abort_immediately", False) else parameters.leg
        own = transfer_id_of(str(call.instance.engine_id), request.request_id)
        admit = SchedAdmit(
            leg=leg,
            remote_engine_id=parameters.remote_engine_id,
            remote_request_id=parameters.remote_request_id,
            remote_num_tokens=parameters.remote_num_tokens,
            malformed=parameters.malformed,
            prompt_tokens=request.num_prompt_tokens,
            lora=_lora(request),
        )
        tracked = Tracked(
            leg=leg,
            transfer_id=own if leg == "prefill" else parameters.transfer_id,
            traceparent=(request.trace_headers or {}).get("traceparent", ""),
            admitted_ns=time.monotonic_ns(),
            admit=admit,
            prefill_stats=request.prefill_stats,
        )
        remember(self._requests, request.request_id, tracked)
        blocks = parameters.remote_block_ids if leg == "decode" else None
        tokens = _comparable_tokens(request, parameters.remote_num_tokens)
        self._emit(
            DeferredHash(admit, request.prompt_token_ids, tokens, blocks), call, request.request_id, tracked
        )

    def before_blocks(self, call: Call) -> None:
        """Blocks were allocated; with external tokens the request is now parked."""
        external = int(call.argument("num_external_tokens") or 0)
        request = call.argument("request")
        tracked = self._requests.get(request.request_id)
        if tracked is None:
            return
        tracked.allocated_ns = tracked.allocated_ns or time.monotonic_ns()
        if tracked.readmission:
            again = msgspec.structs.replace(
                tracked.admit, readmission=tracked.readmission, external_tokens=external
            )
            tracked.readmission = ""
            self._emit(again, call, request.request_id, tracked)
        if external <= 0:
            return
        tracked.expected_tokens = external
        tracked.waiting_since_ns = time.monotonic_ns()
        remote_tokens = tracked.admit.remote_num_tokens
        groups = call.argument("blocks").blocks
        name = type(call.instance).__name__
        # The pull connector asks for everything that is not in the local prefix cache.
        hit_tokens = max(request.num_prompt_tokens - external, 0)
        wait = SchedWaitRemote(
            external_tokens=external,
            connector=name if name == "NixlPushConnector" else "",
            local_hit_tokens=hit_tokens,
            prompt_tokens=request.num_prompt_tokens,
            block_counts=[len(group) for group in groups],
            remote_num_tokens=remote_tokens,
        )
        tokens = _comparable_tokens(request, remote_tokens)
        hits = (
            [_hit_blocks(group, hit_tokens, request.num_prompt_tokens) for group in groups]
            if hit_tokens
            else None
        )
        self._emit(
            DeferredHash(wait, request.prompt_token_ids, tokens, hit_blocks=hits),
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
            waited_seconds=seconds_since(waiting_since) if waiting_since else 0.0,
            scheduler_marked_failed=failed,
            policy="recompute" if call.instance.recompute_kv_load_failures else "fail",
            branch="recompute" if failed else "resume",
        )
        if failed and tracked is not None:
            tracked.readmission = "recompute"
        self._emit(resume, call, request.request_id, tracked)

    def before_preempt(self, call: Call) -> None:
        """A running request loses its blocks and will be computed again."""
        request = call.argument("request")
        tracked = self._requests.get(request.request_id)
        if tracked is not None:
            tracked.readmission = "preempted"
        preempt = SchedPreempt(output_tokens=int(request.num_output_tokens))
        self._emit(preempt, call, request.request_id, tracked)

    def before_speculation(self, call: Call) -> None:
        """One verified draft. Runs for every request and step where speculation is on; only counts."""
        tracked = self._requests.get(call.argument("request_id", ""))
        if tracked is not None:
            tracked.drafted_tokens += int(call.argument("num_draft_tokens", 0))
            tracked.accepted_tokens += int(call.argument("num_accepted_tokens", 0))

    def before_finish(self, call: Call) -> None:
        """A request is done, its blocks are not freed yet."""
        request = call.argument("request")
        tracked = self._requests.get(request.request_id)
        reason = request.get_finished_reason()
        finish = SchedFinish(
            leg=tracked.leg if tracked else read_parameters(request.kv_transfer_params).leg,
            status=request.status.name,
            finish_reason=str(reason) if reason is not None else "",
            output_tokens=int(request.num_output_tokens),
            prompt_tokens=int(request.num_prompt_tokens),
            cached_tokens=tracked.cached_tokens() if tracked else 0,
            preemptions=int(request.num_preemptions),
            nans_in_logits=int(getattr(request, "num_nans_in_logits", 0) or 0),
            speculative_drafted_tokens=tracked.drafted_tokens if tracked else 0,
            speculative_accepted_tokens=tracked.accepted_tokens if tracked else 0,
            engine_seconds=seconds_since(tracked.admitted_ns) if tracked else 0.0,
            queue_seconds=(
                (tracked.allocated_ns - tracked.admitted_ns) / 1e9
                if tracked and tracked.allocated_ns
                else 0.0
            ),
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
        transfer_id = transfer_id_of(str(call.instance.engine_id), request.request_id)
        groups = [list(group) for group in blocks]
        self._emit(
            DeferredHash(offer, request.all_token_ids, tokens, groups),
            call,
            request.request_id,
            tracked,
            transfer_id=transfer_id,
        )
        self.blocks.offer(transfer_id, request.request_id, tracked.traceparent, groups)

    def before_free(self, call: Call) -> None:
        """The pool takes blocks back; only those that had been offered are told."""
        request_id = call.argument("request").request_id
        tracked = self._requests.get(request_id)
        if tracked is None or not tracked.offered_ns:
            return
        self._requests.pop(request_id, None)
        self._emitter.emit(
            KvRelease(offered_seconds=seconds_since(tracked.offered_ns)),
            request_id=request_id,
            transfer_id=transfer_id_of(self._emitter.engine_id, request_id),
            traceparent=tracked.traceparent,
        )

    def _emit(
        self,
        attributes: SchedAdmit | SchedPreempt | SchedResume | SchedFinish | Deferred,
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


def bounded(groups: list[list[_Item]], most: int) -> tuple[list[list[_Item]], bool]:
    """At most `most` items over all groups, each group cut at its end, and whether anything was cut."""
    kept: list[list[_Item]] = []
    left = most
    for group in groups:
        kept.append(group[:left])
        left -= len(kept[-1])
    return kept, sum(map(len, groups)) > most


def _ranges(block_ids: list[int]) -> list[list[int]]:
    """The ids in order as [first, last] ranges of ids that follow one another."""
    ranges: list[list[int]] = []
    for block_id in block_ids:
        if ranges and block_id == ranges[-1][1] + 1:
            ranges[-1][1] = block_id
        else:
            ranges.append([block_id, block_id])
    return ranges


def _hit_blocks(group: Sequence[Any], hit_tokens: int, prompt_tokens: int) -> list[Any]:
    """Blocks of a group that hold the local hit: the group covers the prompt, the hit its first part.

    The null block, which stands for what a sliding window has left behind, is nobody's hit.
    """
    covered = len(group) * hit_tokens // max(prompt_tokens, 1)
    return [block for block in group[:covered] if not getattr(block, "is_null", False)]


def _comparable_tokens(request: Any, remote_tokens: int) -> int:
    """How many leading token ids both sides can hash: what prefill computed, where it said so."""
    return min(remote_tokens, request.num_prompt_tokens) if remote_tokens else int(request.num_prompt_tokens)


def _lora(request: Any) -> str:
    lora = getattr(request, "lora_request", None)
    return str(getattr(lora, "lora_name", "")) if lora is not None else ""
