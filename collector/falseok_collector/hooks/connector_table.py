"""Hooks through which connectors other than NIXL pull are seen, and those that concern every connector."""

from falseok_collector.hooks.api_server import ApiServerObserver
from falseok_collector.hooks.connector_watch import NIXL, ConnectorWatch
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.push import PushObserver
from falseok_collector.hooks.scheduler import SchedulerObserver

FACTORY = "vllm.distributed.kv_transfer.kv_connector.factory"
SCHEDULER = "vllm.v1.core.sched.scheduler"
PUSH_WORKER = "NixlPushConnectorWorker"


def push_hooks(push: PushObserver) -> tuple[Hook, ...]:
    """Hooks of NIXL's push mode."""
    module = f"{NIXL}.push_worker"
    return (
        Hook(
            "worker.push_step",
            module,
            (f"{PUSH_WORKER}.start_load_kv",),
            "kv.read.start of push mode",
            parameters=("metadata",),
            reads=(
                "engine_id",
                "tp_rank",
                "block_size",
                f"{NIXL}.metadata:NixlConnectorMetadata.reqs_to_recv",
                f"{NIXL}.metadata:NixlConnectorMetadata.push_finished_blocks",
            ),
            before=push.before_step,
        ),
        Hook(
            "worker.push_write",
            module,
            (f"{PUSH_WORKER}._do_start_push_kv",),
            "kv.write.start",
            parameters=("request_id", "local_block_ids", "registration_data"),
            reads=("engine_id", "tp_rank"),
            before=push.before_write,
            after=push.after_write,
            failed=push.raised_in_write,
        ),
        Hook(
            "worker.push_results",
            module,
            (f"{PUSH_WORKER}.get_transfer_results", f"{PUSH_WORKER}.get_finished"),
            "kv.write.end",
            reads=("engine_id", "tp_rank"),
            after=push.after_results,
        ),
    )


def data_parallel_hooks(api: ApiServerObserver) -> tuple[Hook, ...]:
    """Hooks that tell which engine core of several serves a request."""
    return tuple(
        Hook(
            name,
            "vllm.v1.engine.core_client",
            (f"{client}.get_core_engine_for_request",),
            "engine id of api.response with data parallelism",
            reads=("vllm.v1.engine.core_client:MPClient.core_engines",),
            after=api.after_engine_choice,
        )
        for name, client in (
            ("api.engine_choice", "DPLBAsyncMPClient"),
            ("api.engine_choice_external", "DPAsyncMPClient"),
        )
    )


def connector_hooks(watch: ConnectorWatch, scheduler: SchedulerObserver) -> tuple[Hook, ...]:
    """Hooks bound to their observers."""
    return (
        Hook(
            "worker.connector",
            FACTORY,
            ("KVConnectorFactory.create_connector",),
            "loads by connectors other than NIXL",
            parameters=("config", "role"),
            reads=(
                "vllm.distributed.kv_transfer.kv_connector.v1.multi_connector:MultiConnector._connectors",
                "vllm.distributed.kv_transfer.kv_connector.v1.base:KVConnectorTransferResults.failed_recving since 0.30",
                "vllm.v1.outputs:KVConnectorOutput.finished_recving",
                "vllm.v1.outputs:KVConnectorOutput.failed_recving since 0.30",
            ),
            after=watch.after_create,
            starts_sender=True,
        ),
        Hook(
            # A MultiConnector with a child that knows one KV group only calls this one of its NIXL child.
            "core.finish_one_group",
            f"{NIXL}.connector",
            ("NixlBaseConnector.request_finished",),
            "sched.finish and kv.offer under MultiConnector",
            parameters=("request",),
            before=scheduler.before_finish,
            after=scheduler.after_finish,
        ),
        Hook(
            "core.invalid_blocks",
            SCHEDULER,
            ("Scheduler._handle_invalid_blocks",),
            "kv.invalid_blocks: requests whose blocks a connector could not fill",
            parameters=("invalid_block_ids",),
            reads=("failed_recving_kv_req_ids", "recompute_kv_load_failures"),
            before=watch.loads.before_invalid_blocks,
            after=watch.loads.after_invalid_blocks,
        ),
    )
