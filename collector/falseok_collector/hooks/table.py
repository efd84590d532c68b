"""The hook table: every function of vLLM that is wrapped, in which versions, and what it gives.

A target may name alternatives; the first that exists is taken. `parameters` are those the observer needs: a
version that lacks one switches the hook off (`collector.hook_unavailable`) rather than guess. `versions` and
`reads` are checked against the sources of every supported release (`tests/source_check`).
"""

from dataclasses import dataclass

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.api_server import ApiServerObserver
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.probe import After, Failed
from falseok_collector.hooks.scheduler import SchedulerObserver
from falseok_collector.hooks.worker import WorkerObserver

CONNECTOR = "vllm.distributed.kv_transfer.kv_connector"
NIXL = f"{CONNECTOR}.v1.nixl"
REQUEST = "vllm.v1.request:Request"


def hook_table(
    emitter: Emitter, worker: WorkerObserver, scheduler: SchedulerObserver, api: ApiServerObserver
) -> tuple[Hook, ...]:
    """All hooks of this release, bound to their observers."""
    connector = f"{NIXL}.connector"
    facade = "NixlBaseConnector"
    base = "NixlBaseConnectorWorker"
    return (
        Hook(
            "worker.compatibility_hash",
            f"{NIXL}.base_worker",
            ("compute_nixl_compatibility_hash",),
            "factors of the compatibility hash by name",
            reads=("vllm.config.utils:hash_factors",),
            before=worker.begin_capture,
            after=worker.end_capture,
            failed=worker.end_capture,
        ),
        Hook(
            "worker.register_kv_caches",
            f"{NIXL}.base_worker",
            (f"{base}.register_kv_caches",),
            "engine.config of the worker: hash, layout, KV groups",
            reads=(
                "engine_id",
                "tp_rank",
                "vllm_config",
                "nixl_wrapper",
                "compat_hash",
                "enforce_compat_hash",
                "kv_cache_config",
                "xfer_handshake_metadata",
                "_is_hma_required",
            ),
            after=worker.after_registration,
            set_up=worker.watch_agent,
            starts_sender=True,
        ),
        Hook(
            "worker.handshake",
            f"{NIXL}.base_worker",
            (f"{base}._nixl_handshake",),
            "kv.handshake",
            parameters=("host", "port", "expected_engine_id"),
            reads=(
                "engine_id",
                "tp_rank",
                "compat_hash",
                "enforce_compat_hash",
            ),
            before=worker.before_handshake,
            after=worker.after_handshake,
            failed=worker.failed_handshake,
        ),
        Hook(
            "worker.log_failure",
            f"{NIXL}.base_worker",
            (f"{base}._log_failure",),
            "kv.read.end of failed reads",
            parameters=("failure_type", "req_id", "error", "meta"),
            reads=(
                "engine_id",
                "tp_rank",
                "block_size",
                "transfer_topo",
                "use_host_buffer",
                "enable_permute_local_kv",
                "enable_heterogeneous_attn_post_process",
                "_recving_metadata",
            ),
            before=worker.before_log_failure,
        ),
        Hook(
            "worker.failed_transfer",
            f"{NIXL}.base_worker",
            (f"{base}._handle_failed_transfer",),
            "kv.read.end of reads declined without a log line",
            parameters=("req_id",),
            reads=("_recving_metadata",),
            before=worker.before_failed_transfer,
        ),
        Hook(
            "worker.read",
            f"{NIXL}.pull_worker",
            ("NixlPullConnectorWorker._read_blocks_for_req",),
            "kv.read.start",
            parameters=("req_id", "meta"),
            reads=(
                "engine_id",
                "tp_rank",
                "block_size",
                "transfer_topo",
                "_remote_agents",
                f"{NIXL}.metadata:ReqMeta.remote",
                f"{NIXL}.metadata:ReqMeta.local_block_ids",
                f"{NIXL}.metadata:RemoteMeta.engine_id",
                f"{NIXL}.metadata:RemoteMeta.request_id",
                f"{NIXL}.metadata:RemoteMeta.block_ids",
                f"{CONNECTOR}.utils:TransferTopology.get_engine_info",
                f"{CONNECTOR}.utils:EngineTransferInfo.remote_block_size",
            ),
            before=worker.before_read,
            after=worker.after_read,
            failed=worker.failed_read,
        ),
        Hook(
            "worker.results",
            connector,
            (f"{facade}.get_transfer_results", f"{facade}.get_finished"),
            "kv.read.end of completed reads, kv.lease_end",
            reads=(
                "connector_worker",
                f"{CONNECTOR}.v1.base:KVConnectorTransferResults.finished_recving since 0.30",
                f"{CONNECTOR}.v1.base:KVConnectorTransferResults.finished_sending since 0.30",
            ),
            before=worker.leases.before_results,
            after=worker.after_results,
        ),
        Hook(
            "worker.notices",
            f"{NIXL}.pull_worker",
            ("NixlPullConnectorWorker._get_new_notifs",),
            "whether a lease ended because its blocks were read",
            reads=("nixl_wrapper", "_reqs_to_send", "_reqs_to_process"),
            after=worker.leases.after_booking,
        ),
        Hook(
            # Not EngineCore.__init__: its first statement loads us, so the call under way can't be wrapped any more.
            # The scheduler is made inside it, after the workers were forked.
            "core.scheduler",
            "vllm.v1.core.sched.scheduler",
            ("Scheduler.__init__",),
            "engine.config of the engine core",
            reads=("vllm_config",),
            after=scheduler.after_scheduler,
            starts_sender=True,
        ),
        Hook(
            "core.admit",
            connector,
            (f"{facade}.on_new_request",),
            "sched.admit",
            parameters=("request",),
            reads=(
                "engine_id",
                f"{REQUEST}.request_id",
                f"{REQUEST}.kv_transfer_params",
                f"{REQUEST}.num_prompt_tokens",
                f"{REQUEST}.prompt_token_ids",
                f"{REQUEST}.trace_headers",
                f"{REQUEST}.lora_request",
                f"{REQUEST}.prefill_stats",
                "vllm.v1.metrics.stats:PrefillStats.num_cached_tokens",
            ),
            before=scheduler.before_new_request,
        ),
        Hook(
            "core.blocks",
            connector,
            (f"{facade}.update_state_after_alloc",),
            "sched.wait_remote",
            parameters=("request", "blocks", "num_external_tokens"),
            reads=("vllm.v1.core.kv_cache_manager:KVCacheBlocks.blocks",),
            before=scheduler.before_blocks,
        ),
        Hook(
            "core.resume",
            "vllm.v1.core.sched.scheduler",
            ("Scheduler._update_waiting_for_remote_kv",),
            "sched.resume: the branch taken after a receive",
            parameters=("request",),
            reads=(
                "failed_recving_kv_req_ids",
                "recompute_kv_load_failures",
                f"{REQUEST}.num_computed_tokens",
            ),
            before=scheduler.before_resume,
            after=scheduler.after_resume,
        ),
        Hook(
            "core.finish",
            connector,
            (f"{facade}.request_finished_all_groups",),
            "sched.finish and kv.offer",
            parameters=("request", "block_ids"),
            reads=(
                "engine_id",
                f"{REQUEST}.get_finished_reason",
                f"{REQUEST}.status",
                f"{REQUEST}.num_output_tokens",
                f"{REQUEST}.num_preemptions",
                f"{REQUEST}.num_nans_in_logits",
                f"{REQUEST}.all_token_ids",
            ),
            before=scheduler.before_finish,
            after=scheduler.after_finish,
        ),
        Hook(
            "core.preempt",
            "vllm.v1.core.sched.scheduler",
            ("Scheduler._preempt_request",),
            "sched.preempt",
            parameters=("request",),
            before=scheduler.before_preempt,
        ),
        Hook(
            "core.speculation",
            "vllm.v1.core.sched.scheduler",
            ("Scheduler.make_spec_decoding_stats",),
            "drafted and accepted tokens of sched.finish",
            parameters=("request_id", "num_draft_tokens", "num_accepted_tokens"),
            before=scheduler.before_speculation,
        ),
        Hook(
            "core.allocate",
            "vllm.v1.core.block_pool",
            ("BlockPool.get_new_blocks",),
            "kv.reuse: which offered blocks are given to someone else",
            reads=("vllm.v1.core.kv_cache_utils:KVCacheBlock.block_id",),
            after=scheduler.blocks.after_new_blocks,
        ),
        Hook(
            "core.step",
            "vllm.v1.core.sched.scheduler",
            ("Scheduler.schedule",),
            "the engine step of kv.reuse",
            reads=("kv_cache_manager",),
            before=scheduler.blocks.before_schedule,
            after=scheduler.blocks.after_schedule,
        ),
        Hook(
            "core.output",
            "vllm.v1.core.sched.scheduler",
            ("Scheduler.update_from_output",),
            "kv.reuse once the blocks are written",
            parameters=("scheduler_output",),
            before=scheduler.blocks.before_update,
        ),
        Hook(
            "core.prefix_reset",
            "vllm.v1.core.block_pool",
            ("BlockPool.reset_prefix_cache",),
            "kv.prefix_reset",
            after=scheduler.blocks.after_reset,
        ),
        Hook(
            "core.free",
            "vllm.v1.core.sched.scheduler",
            ("Scheduler._free_blocks",),
            "kv.release",
            parameters=("request",),
            before=scheduler.before_free,
        ),
        Hook(
            # vLLM kills what is slow to end, before exit handlers run: the last events are written here.
            "core.loop",
            "vllm.v1.engine.core",
            ("EngineCoreProc.run_busy_loop",),
            "the last events of an engine core",
            failed=lambda _call, _state, error: emitter.ended_by(error),
            set_up=lambda _: emitter.close(),
        ),
        Hook(
            # Data-parallel engine cores of mixture-of-experts models have a loop of their own.
            "core.loop_data_parallel",
            "vllm.v1.engine.core",
            ("DPEngineCoreProc.run_busy_loop",),
            "the last events of a data-parallel engine core",
            failed=lambda _call, _state, error: emitter.ended_by(error),
            set_up=lambda _: emitter.close(),
        ),
        Hook(
            "worker.loop",
            "vllm.v1.executor.multiproc_executor",
            ("WorkerProc.worker_busy_loop",),
            "the last events of a worker process",
            failed=lambda _call, _state, error: emitter.ended_by(error),
            set_up=lambda _: emitter.close(),
        ),
        Hook(
            "api.engine_client",
            "vllm.v1.engine.async_llm",
            ("AsyncLLM.__init__",),
            "engine id of the API server, engine.config of the API server",
            reads=("vllm_config",),
            after=api.after_async_llm,
            starts_sender=True,
        ),
        Hook(
            "api.add_request",
            "vllm.v1.engine.output_processor",
            ("OutputProcessor.add_request",),
            "internal ids of the engine requests behind a response",
            parameters=("request",),
            reads=(
                "vllm.v1.engine:EngineCoreRequest.request_id",
                "vllm.v1.engine:EngineCoreRequest.external_req_id",
                "vllm.v1.engine:EngineCoreRequest.sampling_params",
            ),
            before=api.before_add_request,
        ),
        Hook(
            "api.finish_request",
            "vllm.v1.engine.output_processor",
            ("OutputProcessor._finish_request",),
            "text features of token ids",
            parameters=("req_state",),
            reads=(
                "vllm.v1.engine.output_processor:RequestState.request_id",
                "vllm.v1.engine.output_processor:RequestState.detokenizer",
                "vllm.v1.engine.output_processor:RequestState.logprobs_processor",
                "vllm.v1.engine.detokenizer:IncrementalDetokenizer.output_token_ids",
                "vllm.v1.engine.logprobs:LogprobsProcessor.cumulative_logprob",
            ),
            before=api.before_finish_request,
        ),
        Hook(
            "api.application",
            "fastapi.applications",
            ("FastAPI.__call__",),
            "api.response",
            parameters=("scope", "receive", "send"),
            around=api.around_application,
        ),
    )


@dataclass(frozen=True)
class AgentHook:
    """One method of the NIXL agent that a worker owns; wrapped on the instance, once it exists."""

    name: str
    gives: str
    after: After | None = None
    failed: Failed | None = None


def agent_hooks(worker: WorkerObserver) -> tuple[AgentHook, ...]:
    """Hooks on the NIXL agent (`nixl_agent`, 1.5.1). Its polling method is left alone: it is hot."""
    return (
        AgentHook(
            "nixl.get_new_notifs",
            "completion notices: kv.lease_end, kv.notice",
            after=worker.leases.after_notices,
        ),
        AgentHook(
            "nixl.make_prepped_xfer", "handles and descriptors of a read", after=worker.after_make_transfer
        ),
        AgentHook(
            "nixl.get_xfer_telemetry",
            "bytes of a read",
            after=worker.after_telemetry,
            failed=worker.failed_telemetry,
        ),
        AgentHook(
            "nixl.release_xfer_handle",
            "end of a handle",
            after=worker.after_release,
            failed=worker.failed_release,
        ),
    )
