"""An engine's configuration is captured field by field from objects shaped like vLLM's."""

import hashlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from falseok_collector.attributes import EngineConfig, KvGroup
from falseok_collector.engine_config import engine_config
from falseok_collector.factors import compared_factors
from falseok_collector.redaction import REDACTED


class ExtraConfig(SimpleNamespace):
    """Like vLLM's `KVTransferConfig`: attributes plus a look-up of extra settings."""

    def get_from_extra_config(self, name: str, default: Any) -> Any:
        """The extra setting, or the default."""
        return self.kv_connector_extra_config.get(name, default)


class DType:
    """Like `torch.dtype`: only its text says what it is."""

    def __str__(self) -> str:
        return "torch.bfloat16"


class FullAttentionSpec(SimpleNamespace):
    """Like the KV cache spec of the same name."""


class SlidingWindowSpec(SimpleNamespace):
    """Like the KV cache spec of the same name."""


def vllm_config() -> SimpleNamespace:
    """A configuration with every attribute that is read."""
    return SimpleNamespace(
        kv_transfer_config=ExtraConfig(
            kv_connector="NixlConnector",
            kv_role="kv_both",
            kv_load_failure_policy="fail",
            engine_id="engine-1",
            kv_connector_extra_config={"enforce_handshake_compat": False, "store_password": "p"},
            _private="x",
        ),
        model_config=SimpleNamespace(
            model="tiny",
            revision="main",
            served_model_name=["tiny", "alias"],
            dtype=DType(),
            quantization=None,
            max_model_len=2048,
            enforce_eager=True,
            hf_text_config=SimpleNamespace(rope_parameters={"rope_theta": 10000.0}),
        ),
        cache_config=SimpleNamespace(cache_dtype="auto", block_size=16, enable_prefix_caching=True),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=2,
            pipeline_parallel_size=1,
            data_parallel_size=1,
            data_parallel_rank=0,
            decode_context_parallel_size=1,
        ),
        scheduler_config=SimpleNamespace(async_scheduling=True),
        compilation_config=SimpleNamespace(cudagraph_mode="FULL"),
        speculative_config=SimpleNamespace(method="eagle", num_speculative_tokens=3, model=None),
        structured_outputs_config=SimpleNamespace(reasoning_parser="qwen3"),
    )


def nixl_worker() -> SimpleNamespace:
    """A connector worker after `register_kv_caches`."""
    advertised = {
        "num_blocks": 100,
        "block_size": 32,
        "kv_cache_layout": "HND",
        "attn_backend_name": "FLASH_ATTN",
        "block_lens": [4096, 4096],
        "physical_blocks_per_logical_kv_block": 2,
    }
    return SimpleNamespace(
        compat_hash="c0ffee",
        enforce_compat_hash=True,
        _is_hma_required=True,
        kv_cache_config=SimpleNamespace(
            kv_cache_groups=[
                SimpleNamespace(kv_cache_spec=FullAttentionSpec(block_size=16), layer_names=["a", "b"]),
                SimpleNamespace(
                    kv_cache_spec=SlidingWindowSpec(block_size=16, sliding_window=128), layer_names=["c"]
                ),
            ]
        ),
        xfer_handshake_metadata=SimpleNamespace(agent_metadata_bytes=msgspec.msgpack.encode(advertised)),
    )


API_ARGUMENTS = SimpleNamespace(
    reasoning_parser="", tool_call_parser="hermes", chat_template="{{ messages }}"
)
FACTORS = {"dtype": "torch.bfloat16", "num_kv_heads": 2, "cache_dtype": "auto"}


def described(config: Any) -> EngineConfig:
    """The event of a process that knows everything, without what the machine adds."""
    event = engine_config(
        config, "worker", factors=FACTORS, worker=nixl_worker(), api_arguments=API_ARGUMENTS
    )
    return msgspec.structs.replace(event, environment={}, versions={})


COMPLETE = EngineConfig(
    process="worker",
    role="kv_both",
    kv_connector="NixlConnector",
    connectors=["NixlConnector"],
    transfer_mode="pull",
    kv_transfer_config={
        "kv_connector": "NixlConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "fail",
        "engine_id": "engine-1",
        "kv_connector_extra_config": {"enforce_handshake_compat": False, "store_password": REDACTED},
    },
    factors=FACTORS,
    factors_compared={"dtype": "bfloat16", "num_kv_heads": "2", "cache_dtype": "bfloat16"},
    compatibility_hash="c0ffee",
    enforce_handshake_compat=True,
    kv_load_failure_policy="fail",
    hybrid_memory_allocator=True,
    kv_groups=[
        KvGroup(kind="FullAttentionSpec", layers=2, block_size=16),
        KvGroup(kind="SlidingWindowSpec", layers=1, block_size=16, sliding_window=128),
    ],
    block_size=32,
    physical_blocks_per_logical_block=2,
    num_blocks=100,
    kv_cache_layout="HND",
    region_count=2,
    region_lengths_bytes=[4096, 4096],
    attention_backend="FLASH_ATTN",
    tensor_parallel_size=2,
    pipeline_parallel_size=1,
    data_parallel_size=1,
    data_parallel_rank=0,
    decode_context_parallel_size=1,
    model="tiny",
    served_model_names=["tiny", "alias"],
    model_revision="main",
    dtype="torch.bfloat16",
    kv_cache_dtype="auto",
    max_model_len=2048,
    speculative_config={"method": "eagle", "num_speculative_tokens": 3},
    rope_parameters={"rope_theta": 10000.0},
    chat_template_hash=hashlib.sha256(b"{{ messages }}").hexdigest(),
    cuda_graph_mode="FULL",
    enforce_eager=True,
    prefix_caching=True,
    async_scheduling=True,
    reasoning_parser="qwen3",
    tool_call_parser="hermes",
    kv_lease_seconds=30.0,
)


def test_everything_that_is_there_is_captured() -> None:
    """Each field of the contract comes from its vLLM object; an empty parser argument does not win."""
    assert COMPLETE == described(vllm_config())


WHOLE = "kv_transfer_config"
"""The field that shows the whole of vLLM's own configuration object."""
COMES_FROM: dict[str, set[str]] = {
    "kv_transfer_config": {
        "role",
        "kv_connector",
        "connectors",
        "transfer_mode",
        "kv_load_failure_policy",
        WHOLE,
        "kv_lease_seconds",
    },
    "kv_transfer_config.kv_role": {"role", WHOLE},
    "kv_transfer_config.kv_connector": {"kv_connector", "connectors", "transfer_mode", WHOLE},
    "kv_transfer_config.kv_load_failure_policy": {"kv_load_failure_policy", WHOLE},
    "kv_transfer_config.kv_connector_extra_config": {"kv_lease_seconds", WHOLE},
    "kv_transfer_config.engine_id": {WHOLE},
    "kv_transfer_config._private": set(),
    "model_config": {
        "model",
        "model_revision",
        "served_model_names",
        "dtype",
        "max_model_len",
        "enforce_eager",
        "rope_parameters",
    },
    "model_config.model": {"model"},
    "model_config.revision": {"model_revision"},
    "model_config.served_model_name": {"served_model_names"},
    "model_config.dtype": {"dtype"},
    "model_config.quantization": set(),
    "model_config.max_model_len": {"max_model_len"},
    "model_config.enforce_eager": {"enforce_eager"},
    "model_config.hf_text_config": {"rope_parameters"},
    "model_config.hf_text_config.rope_parameters": {"rope_parameters"},
    "cache_config": {"kv_cache_dtype", "prefix_caching"},
    "cache_config.cache_dtype": {"kv_cache_dtype"},
    "cache_config.block_size": set(),  # the worker advertises one, too
    "cache_config.enable_prefix_caching": {"prefix_caching"},
    "parallel_config": {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "decode_context_parallel_size",
    },
    "parallel_config.tensor_parallel_size": {"tensor_parallel_size"},
    "parallel_config.pipeline_parallel_size": {"pipeline_parallel_size"},
    "parallel_config.data_parallel_size": {"data_parallel_size"},
    "parallel_config.data_parallel_rank": set(),  # 0 is the default
    "parallel_config.decode_context_parallel_size": {"decode_context_parallel_size"},
    "scheduler_config": {"async_scheduling"},
    "scheduler_config.async_scheduling": {"async_scheduling"},
    "compilation_config": {"cuda_graph_mode"},
    "compilation_config.cudagraph_mode": {"cuda_graph_mode"},
    "speculative_config": {"speculative_config"},
    "speculative_config.method": {"speculative_config"},
    "speculative_config.num_speculative_tokens": {"speculative_config"},
    "speculative_config.model": set(),
    "structured_outputs_config": {"reasoning_parser"},
    "structured_outputs_config.reasoning_parser": {"reasoning_parser"},
}


def paths(config: Any, prefix: str = "") -> Iterator[str]:
    """Path of every attribute of the configuration, branches included."""
    for name, value in vars(config).items():
        yield prefix + name
        if isinstance(value, SimpleNamespace):
            yield from paths(value, f"{prefix}{name}.")


@pytest.mark.parametrize("path", list(paths(vllm_config())))
def test_a_missing_attribute_costs_only_its_own_fields(path: str) -> None:
    """Another vLLM may lack any attribute: what does not come from it stays as it was."""
    config = vllm_config()
    *branches, leaf = path.split(".")
    owner: Any = config
    for name in branches:
        owner = getattr(owner, name)
    delattr(owner, leaf)
    event = described(config)
    changed = {name for name in COMPLETE.__struct_fields__ if getattr(event, name) != getattr(COMPLETE, name)}
    assert COMES_FROM[path] == changed


def test_an_empty_configuration_still_gives_an_event() -> None:
    """Process, versions and environment need no vLLM."""
    event = engine_config(SimpleNamespace(), "engine_core", worker=SimpleNamespace(), factors={})
    assert "engine_core" == event.process
    assert "python" in event.versions
    assert "" == event.model


def test_a_value_of_another_type_costs_only_its_own_field() -> None:
    """A field that would make the whole event unreadable is left out."""
    config = vllm_config()
    config.model_config.revision = 7
    config.kv_transfer_config.kv_role = ["kv_both"]
    event = described(config)
    expected = msgspec.structs.replace(
        COMPLETE,
        model_revision="",
        role="",
        kv_transfer_config={**COMPLETE.kv_transfer_config, "kv_role": ["kv_both"]},
    )
    assert expected == event
    assert event == msgspec.json.decode(msgspec.json.encode(event), type=EngineConfig)


def test_an_unreadable_advertisement_costs_only_its_own_fields() -> None:
    """A worker whose metadata cannot be decoded still reports its hash and its groups."""
    worker = nixl_worker()
    worker.xfer_handshake_metadata.agent_metadata_bytes = b"\xc1"
    event = engine_config(vllm_config(), "worker", worker=worker)
    assert ("c0ffee", 2, 0) == (event.compatibility_hash, len(event.kv_groups), event.num_blocks)


@pytest.mark.parametrize(
    ("names", "mode"),
    [
        (["NixlConnector"], "pull"),
        (["NixlPushConnector"], "push"),
        (["ExampleConnector", "OffloadingConnector"], "other"),
        (["NixlConnector", "ExampleConnector"], "mixed"),
    ],
)
def test_children_of_a_multi_connector_are_named_and_say_how_kv_moves(names: list[str], mode: str) -> None:
    """What decode may be judged by depends on whether it reads, is written to, or loads in another way."""
    config = vllm_config()
    config.kv_transfer_config.kv_connector = "MultiConnector"
    config.kv_transfer_config.kv_connector_extra_config = {
        "connectors": [{"kv_connector": name} for name in names]
    }
    event = engine_config(config, "engine_core")
    assert (names, mode) == (event.connectors, event.transfer_mode)


def test_the_environment_comes_along_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engine variables only, without their secrets."""
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    monkeypatch.setenv("UCX_TLS", "tcp")
    environment = engine_config(vllm_config(), "worker").environment
    assert {"VLLM_API_KEY": REDACTED, "UCX_TLS": "tcp"}.items() <= environment.items()


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        pytest.param({"dtype": "torch.float32"}, {"dtype": "float32"}, id="the prefix of torch goes"),
        pytest.param({"dtype": DType()}, {"dtype": "bfloat16"}, id="dtypes as objects read as their text"),
        pytest.param(
            {"dtype": "torch.bfloat16", "cache_dtype": "auto"},
            {"dtype": "bfloat16", "cache_dtype": "bfloat16"},
            id="auto means the dtype of the model",
        ),
        pytest.param(
            {"dtype": "torch.bfloat16", "cache_dtype": "fp8"},
            {"dtype": "bfloat16", "cache_dtype": "fp8"},
            id="an explicit cache dtype stays",
        ),
        pytest.param({"cache_dtype": "auto"}, {"cache_dtype": "auto"}, id="auto stays without a dtype"),
        pytest.param({"is_hma_enabled": True}, {"is_hma_enabled": "true"}, id="true is a word"),
        pytest.param({"is_hma_enabled": False}, {"is_hma_enabled": "false"}, id="false is a word"),
        pytest.param({"speculative_config": None}, {"speculative_config": "none"}, id="none is a word"),
        pytest.param({"head_size": 64}, {"head_size": "64"}, id="numbers are text"),
        pytest.param(
            {"speculative_config": {"b": (1, 2), "a": None}},
            {"speculative_config": '{"a":null,"b":[1,2]}'},
            id="structures are JSON with sorted keys",
        ),
    ],
)
def test_factors_are_normalised_for_comparison(factors: dict[str, Any], expected: dict[str, str]) -> None:
    """Equal engines give equal text, however they are looked at."""
    assert expected == compared_factors(factors)


def test_structures_compare_equal_whatever_the_order_and_kind_of_sequence() -> None:
    """A tuple here and a list there, keys in another order: the same factor."""
    one = compared_factors({"speculative_config": {"a": 1, "b": (1, 2)}})
    other = compared_factors({"speculative_config": {"b": [1, 2], "a": 1}})
    assert one == other
