"""vLLM's KV connectors that the collector is meant to work with, and how far that was tried."""

from dataclasses import dataclass

from falseok_collector.hooks.versions import SUPPORTED, Versions

_V1 = "vllm.distributed.kv_transfer.kv_connector.v1"

INTERFACE: dict[str, tuple[str, ...]] = {
    "on_new_request": ("request",),
    "get_num_new_matched_tokens": ("request", "num_computed_tokens"),
    "update_state_after_alloc": ("request", "blocks", "num_external_tokens"),
    "build_connector_meta": (),
    "update_connector_output": ("connector_output",),
    "request_finished": ("request",),
    "take_events": (),
    "start_load_kv": (),
    "get_finished": (),
    "get_block_ids_with_load_errors": (),
}
"""Methods of `KVConnectorBase_V1` that every connector has, its own or inherited, from 0.26 to 0.33, with the
parameters that observers need."""

ONLY_SOME: dict[str, tuple[str, ...]] = {
    "request_finished_all_groups": ("request",),
    "get_transfer_results": (),
}
"""Methods that only some connectors (`SupportsHMA`) or releases (since 0.30) have."""


@dataclass(frozen=True)
class Connector:
    """One connector as `--kv-transfer-config` names it."""

    name: str
    module: str
    class_name: str
    """Where a package of its own may bring the class (LMCacheMPConnector), the one vLLM falls back to."""
    live: tuple[str, ...] = ()
    """Releases on which requests went through it on a real pair of engines with the collector installed."""
    versions: Versions = SUPPORTED

    @property
    def target(self) -> str:
        """`module:Class`."""
        return f"{self.module}:{self.class_name}"


CONNECTORS = (
    Connector(
        "NixlConnector",
        f"{_V1}.nixl.connector",
        "NixlPullConnector",
        ("0.27.0", "0.29.0", "0.30.0", "0.32.0"),
    ),
    Connector("NixlPushConnector", f"{_V1}.nixl.connector", "NixlPushConnector", ("0.32.0",)),
    Connector("MultiConnector", f"{_V1}.multi_connector", "MultiConnector", ("0.32.0",)),
    Connector("ExampleConnector", f"{_V1}.example_connector", "ExampleConnector", ("0.32.0",)),
    Connector("OffloadingConnector", f"{_V1}.offloading_connector", "OffloadingConnector"),
    Connector("LMCacheConnectorV1", f"{_V1}.lmcache_connector", "LMCacheConnectorV1"),
    Connector("LMCacheMPConnector", f"{_V1}.lmcache_mp_connector", "LMCacheMPConnectorUpstream"),
    Connector("MooncakeConnector", f"{_V1}.mooncake.mooncake_connector", "MooncakeConnector"),
    Connector("MooncakeStoreConnector", f"{_V1}.mooncake.store.connector", "MooncakeStoreConnector"),
)
