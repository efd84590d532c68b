"""What one engine said of itself while it started, put together as its `engine.config`. Knows no files."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from falseok_collector.attributes import EngineConfig
from falseok_collector.factors import compared_factors
from falseok_collector.redaction import redact
from falseok_pipeline.sources.logs.templates import Startup

_MODE_IS_HASHED_FROM = (0, 28)
"""From this version on the hash holds the transfer mode and the speculative configuration."""

_SPECULATION_HASHED = ("eagle", "eagle3", "mtp", "deepseek_mtp")


@dataclass
class EngineState:
    """One engine process tree between two starts."""

    engine_id: str
    role: str
    """prefill or decode, as the file was given."""
    first_micros: int = 0
    last_micros: int = 0
    version: str = ""
    nixl_version: str = ""
    connector: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    transfer_config: dict[str, Any] = field(default_factory=dict)
    attention_backends: tuple[str, ...] = ()
    kv_cache_layout: str = ""
    kv_cache_tokens: int = 0
    compatibility_hash: str = ""
    hybrid: bool | None = None

    @property
    def started(self) -> bool:
        """Whether anything of its start was read."""
        return bool(self.version or self.arguments or self.connector)

    def note(self, statement: Startup, now_micros: int) -> None:
        """Take a statement in."""
        self.first_micros = self.first_micros or now_micros
        self.last_micros = max(self.last_micros, now_micros)
        reader = _READERS.get(statement.kind)
        if reader is not None:
            reader(self, statement.values)

    def note_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Take the dump of the arguments in."""
        self.arguments = {str(name): value for name, value in arguments.items()}
        transfer = self.arguments.get("kv_transfer_config")
        if isinstance(transfer, Mapping):
            self.transfer_config = {str(name): value for name, value in transfer.items()}
        if self.arguments.get("disable_hybrid_kv_cache_manager") is True:
            self.hybrid = False

    def factors(self) -> dict[str, Any]:
        """The factors of the compatibility hash that the log shows, as the engine hashes them."""
        found: dict[str, Any] = {}
        if self.version:
            found["vllm_version"] = self.version
        for name, source in (("model", "model"), ("dtype", "dtype"), ("cache_dtype", "kv_cache_dtype")):
            if isinstance(self.config.get(source), str) and self.config[source]:
                found[name] = self.config[source]
        if self.attention_backends:
            found["attn_backend_name"] = self.attention_backends[0]
        disabled = self.arguments.get("disable_hybrid_kv_cache_manager")
        if isinstance(disabled, bool) or self.hybrid is False:
            found["is_hma_enabled"] = disabled is False and self.hybrid is not False
        if _release(self.version) >= _MODE_IS_HASHED_FROM:
            if self.connector in {"NixlPullConnector", "NixlPushConnector"}:
                found["transfer_mode"] = "push" if "Push" in self.connector else "pull"
            if "speculative_config" in self.config:
                found["speculative_config"] = self._speculation()
        return found

    def _speculation(self) -> Any:
        config = self.config["speculative_config"]
        if not isinstance(config, Mapping) or config.get("method") not in _SPECULATION_HASHED:
            return None
        return redact({name: config[name] for name in ("method", "model") if name in config})

    def event(self, shared_factors: frozenset[str]) -> EngineConfig:
        """The configuration as an event. Factors that another engine's log does not show are left out: compared
        with nothing they would seem to differ.
        """
        transfer, config = self.transfer_config, self.config
        extra = transfer.get("kv_connector_extra_config")
        extra = extra if isinstance(extra, Mapping) else {}
        factors = {name: value for name, value in self.factors().items() if name in shared_factors}
        versions = {"vllm": self.version, "nixl": self.nixl_version}
        names = self.arguments.get("served_model_name") or config.get("served_model_name") or []
        return EngineConfig(
            process="log",
            role=_text(transfer.get("kv_role"))
            or {"prefill": "kv_producer", "decode": "kv_consumer"}[self.role],
            kv_connector=_text(transfer.get("kv_connector")) or self.connector,
            versions={name: value for name, value in versions.items() if value},
            kv_transfer_config=redact(transfer),
            factors=redact(factors),
            factors_compared=compared_factors(factors),
            compatibility_hash=self.compatibility_hash,
            enforce_handshake_compat=bool(extra.get("enforce_handshake_compat", True)) if transfer else None,
            kv_load_failure_policy=_text(transfer.get("kv_load_failure_policy")),
            hybrid_memory_allocator=self.hybrid,
            block_size=_number(self.arguments.get("block_size")),
            kv_cache_layout=self.kv_cache_layout,
            attention_backend=", ".join(self.attention_backends),
            tensor_parallel_size=_number(config.get("tensor_parallel_size")),
            pipeline_parallel_size=_number(config.get("pipeline_parallel_size")),
            data_parallel_size=_number(config.get("data_parallel_size")),
            decode_context_parallel_size=_number(config.get("decode_context_parallel_size")),
            model=_text(config.get("model")) or _text(self.arguments.get("model")),
            served_model_names=[str(name) for name in (names if isinstance(names, list) else [names])],
            model_revision=_text(config.get("revision")),
            dtype=_text(config.get("dtype")),
            kv_cache_dtype=_text(config.get("kv_cache_dtype")),
            quantization=_text(config.get("quantization")),
            max_model_len=_number(config.get("max_seq_len")),
            enforce_eager=_flag(config.get("enforce_eager")),
            prefix_caching=_flag(config.get("enable_prefix_caching")),
            reasoning_parser=_text(self.arguments.get("reasoning_parser")),
            tool_call_parser=_text(self.arguments.get("tool_call_parser")),
            kv_lease_seconds=_seconds(extra.get("kv_lease_duration", 30)) if transfer else 0.0,
            non_default_arguments=redact(self.arguments),
            kv_cache_tokens=self.kv_cache_tokens,
        )


def _note_configuration(state: EngineState, values: Mapping[str, Any]) -> None:
    state.version = str(values["version"])
    state.config = dict(values["config"])


def _note_version(state: EngineState, values: Mapping[str, Any]) -> None:
    state.version = state.version or str(values["version"])


def _note_backends(state: EngineState, values: Mapping[str, Any]) -> None:
    state.attention_backends = tuple(re.findall(r"[\w.]+", values["backends"]))


def _note_cache_size(state: EngineState, values: Mapping[str, Any]) -> None:
    state.kv_cache_tokens = int(values["tokens"].replace(",", "") or 0)


def _sets(attribute: str, name: str) -> Callable[[EngineState, Mapping[str, Any]], None]:
    return lambda state, values: setattr(state, attribute, values[name])


_READERS: dict[str, Callable[[EngineState, Mapping[str, Any]], None]] = {
    "arguments": lambda state, values: state.note_arguments(values["arguments"]),
    "engine_configuration": _note_configuration,
    "banner": _note_version,
    "attention_backend": _note_backends,
    "kv_cache_size": _note_cache_size,
    "connector": _sets("connector", "connector"),
    "kv_cache_layout": _sets("kv_cache_layout", "layout"),
    "hybrid_off": _sets("hybrid", "hybrid"),
    "compatibility_passed": _sets("compatibility_hash", "hash"),
    "nixl_version": _sets("nixl_version", "nixl"),
}


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _text(value: Any) -> str:
    return value[:1_000] if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else 0


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0
