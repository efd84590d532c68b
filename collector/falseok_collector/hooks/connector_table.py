"""Hooks through which connectors other than NIXL pull are seen, and those that concern every connector."""

from falseok_collector.hooks.connector_watch import NIXL, ConnectorWatch
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.scheduler import SchedulerObserver

FACTORY = "vllm.distributed.kv_transfer.kv_connector.factory"
SCHEDULER = "vllm.v1.core.sched.scheduler"


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
