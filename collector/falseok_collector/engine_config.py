"""Turns vLLM's own configuration objects into the `engine.config` event, verbatim where it matters.

Every part is read on its own, so that an attribute another vLLM version lacks costs one field, not the event.
Nothing here computes what vLLM computes: hash, factors and geometry are captured, not re-implemented.
"""

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_type_hints

import msgspec

from falseok_collector.attributes import EngineConfig, KvGroup
from falseok_collector.factors import compared_factors
from falseok_collector.redaction import redact, relevant_environment

_TYPES = get_type_hints(EngineConfig, include_extras=True)


class Fields:
    """Collects fields of `EngineConfig` one by one; a getter that fails leaves its field at the default."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def put(self, name: str, getter: Callable[[], Any]) -> None:
        """Set `name` to what `getter` gives, unless it raises, gives None or another type than the contract's."""
        try:
            value = msgspec.convert(getter(), _TYPES[name])
        except Exception:  # noqa: BLE001 - another vLLM may lack any of these attributes
            return
        if value is not None:
            self.values[name] = value


def engine_config(
    vllm_config: Any,
    process: str,
    *,
    factors: Mapping[str, Any] | None = None,
    worker: Any = None,
    api_arguments: Any = None,
) -> EngineConfig:
    """Describe an engine as one of its processes sees it.

    `factors` are those captured from `compute_nixl_compatibility_hash`; `worker` is the NIXL connector worker
    after `register_kv_caches`; `api_arguments` are the parsed arguments of an API server. Never raises.
    """
    fields = Fields()
    _describe_versions(fields)
    _describe_transfer(fields, vllm_config)
    _describe_model(fields, vllm_config)
    _describe_parallelism(fields, vllm_config)
    if factors is not None:
        fields.put("factors", lambda: redact(factors))
        fields.put("factors_compared", lambda: compared_factors(factors))
    if worker is not None:
        _describe_worker(fields, worker)
    if api_arguments is not None:
        _describe_api(fields, api_arguments)
    fields.put("environment", lambda: relevant_environment(os.environ))
    return EngineConfig(process=process, **fields.values)


def side_channel() -> str:
    """host:port of this engine's NIXL side channel, without the data-parallel offset; empty where unknown."""
    try:
        from vllm import envs  # noqa: PLC0415 - only an engine process has vLLM

        host, port = envs.VLLM_NIXL_SIDE_CHANNEL_HOST, envs.VLLM_NIXL_SIDE_CHANNEL_PORT
    except Exception:  # noqa: BLE001 - vLLM parses these on access and may refuse them
        return ""
    return f"{host}:{port}"


def _describe_versions(fields: Fields) -> None:
    versions = {"python": platform.python_version()}
    for package in ("nixl", "torch", "falseok"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        import vllm  # noqa: PLC0415 - only an engine process has vLLM

        versions["vllm"] = vllm.__version__
    except Exception:  # noqa: BLE001 - an import of vLLM may fail in any way
        versions["vllm"] = ""
    fields.values["versions"] = versions


def _describe_transfer(fields: Fields, vllm_config: Any) -> None:
    transfer: Any = getattr(vllm_config, "kv_transfer_config", None)
    fields.put("role", lambda: transfer.kv_role)
    fields.put("kv_connector", lambda: transfer.kv_connector)
    fields.put("connectors", lambda: _connectors(transfer))
    fields.put("transfer_mode", lambda: _transfer_mode(_connectors(transfer)))
    fields.put("kv_load_failure_policy", lambda: transfer.kv_load_failure_policy)
    fields.put("kv_transfer_config", lambda: redact(_plain(transfer)))
    fields.put(
        "enforce_handshake_compat",
        lambda: bool(transfer.get_from_extra_config("enforce_handshake_compat", default=True)),
    )
    fields.put(
        "kv_lease_seconds", lambda: float(transfer.get_from_extra_config("kv_lease_duration", default=30))
    )
    fields.put("side_channel", side_channel)


def _connectors(transfer: Any) -> list[str]:
    """Names as configured, those of a `MultiConnector`'s children in its place (vLLM `MultiConnector`)."""
    if transfer.kv_connector != "MultiConnector":
        return [str(transfer.kv_connector)]
    return [str(child["kv_connector"]) for child in transfer.kv_connector_extra_config["connectors"]]


def _transfer_mode(connectors: list[str]) -> str:
    """How KV moves; `NixlConnector` is the pulling one under its old name (0.26 to 0.33)."""
    known = {"NixlConnector": "pull", "NixlPullConnector": "pull", "NixlPushConnector": "push"}
    modes = {known.get(name, "other") for name in connectors}
    return modes.pop() if len(modes) == 1 else "mixed"


def _describe_model(fields: Fields, vllm_config: Any) -> None:
    model: Any = getattr(vllm_config, "model_config", None)
    cache: Any = getattr(vllm_config, "cache_config", None)
    fields.put("model", lambda: str(model.model))
    fields.put("model_revision", lambda: model.revision)
    fields.put("served_model_names", lambda: _names(model.served_model_name))
    fields.put("dtype", lambda: str(model.dtype))
    fields.put("kv_cache_dtype", lambda: str(cache.cache_dtype))
    fields.put("quantization", lambda: model.quantization and str(model.quantization))
    fields.put("max_model_len", lambda: int(model.max_model_len))
    fields.put(
        "rope_parameters", lambda: redact(getattr(model.hf_text_config, "rope_parameters", None) or {})
    )
    fields.put("block_size", lambda: int(cache.block_size))
    fields.put("prefix_caching", lambda: bool(cache.enable_prefix_caching))
    fields.put("enforce_eager", lambda: bool(model.enforce_eager))
    fields.put("async_scheduling", lambda: bool(vllm_config.scheduler_config.async_scheduling))
    fields.put("cuda_graph_mode", lambda: str(vllm_config.compilation_config.cudagraph_mode))
    fields.put("speculative_config", lambda: _speculation(vllm_config.speculative_config))
    fields.put("reasoning_parser", lambda: vllm_config.structured_outputs_config.reasoning_parser)


def _describe_parallelism(fields: Fields, vllm_config: Any) -> None:
    parallel: Any = getattr(vllm_config, "parallel_config", None)
    for name in (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "data_parallel_rank",
        "decode_context_parallel_size",
    ):
        fields.put(name, partial(_integer, parallel, name))


def _integer(owner: Any, name: str) -> int:
    return int(getattr(owner, name))


def _describe_worker(fields: Fields, worker: Any) -> None:
    fields.put("compatibility_hash", lambda: worker.compat_hash)
    fields.put("hybrid_memory_allocator", lambda: bool(worker._is_hma_required))  # noqa: SLF001 - no public name
    fields.put("kv_groups", lambda: [_group(group) for group in worker.kv_cache_config.kv_cache_groups])
    fields.put("enforce_handshake_compat", lambda: bool(worker.enforce_compat_hash))
    advertised = _advertised(worker)
    fields.put("num_blocks", lambda: int(advertised["num_blocks"]))
    fields.put("block_size", lambda: int(advertised["block_size"]))
    fields.put("kv_cache_layout", lambda: advertised["kv_cache_layout"])
    fields.put("attention_backend", lambda: advertised["attn_backend_name"])
    fields.put("region_count", lambda: len(advertised["block_lens"]))
    fields.put("region_lengths_bytes", lambda: [int(length) for length in advertised["block_lens"]])
    fields.put(
        "physical_blocks_per_logical_block", lambda: int(advertised["physical_blocks_per_logical_kv_block"])
    )


def _advertised(worker: Any) -> dict[str, Any]:
    """What the worker tells its peers about itself (vLLM `NixlAgentMetadata`); empty when it cannot be read."""
    try:
        return msgspec.msgpack.decode(
            worker.xfer_handshake_metadata.agent_metadata_bytes, type=dict[str, Any]
        )
    except Exception:  # noqa: BLE001 - another vLLM may keep it elsewhere; then those fields are missing
        return {}


def _describe_api(fields: Fields, arguments: Any) -> None:
    fields.put("reasoning_parser", lambda: arguments.reasoning_parser or None)
    fields.put("tool_call_parser", lambda: arguments.tool_call_parser)
    fields.put("chat_template_hash", lambda: _hash_of(arguments.chat_template))


def _hash_of(template: str | None) -> str | None:
    return hashlib.sha256(template.encode()).hexdigest() if template else None


def _group(group: Any) -> KvGroup:
    spec = group.kv_cache_spec
    return KvGroup(
        kind=type(spec).__name__,
        layers=len(group.layer_names),
        block_size=int(getattr(spec, "block_size", 0) or 0),
        sliding_window=int(getattr(spec, "sliding_window", 0) or 0),
    )


def _speculation(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    wanted = ("method", "model", "num_speculative_tokens", "parallel_drafting", "revision")
    return {name: redact(getattr(config, name)) for name in wanted if getattr(config, name, None) is not None}


def _names(value: Any) -> list[str] | None:
    if value is None:
        return None
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]


def _plain(config: Any) -> dict[str, Any]:
    """A configuration dataclass as a mapping, without its private fields."""
    return {name: value for name, value in vars(config).items() if not name.startswith("_")}
