"""Command lines and environments of a pair's processes. Pure: nothing is started here.

What stands here was found on real engines; the reasons are beside each setting.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from falseok_lab.connectors import Role, connector_named, kv_transfer_config
from falseok_lab.faults import Fault
from falseok_lab.installer import environment_without_virtualenv
from falseok_lab.models import Model
from falseok_lab.ports import LOOPBACK
from falseok_lab.state import PairState

MAX_MODEL_TOKENS = 1024

ENGINE_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "UCX_TLS": "tcp,self,sm",
    "VLLM_NIXL_SIDE_CHANNEL_HOST": LOOPBACK,
    "PYTHONUNBUFFERED": "1",
}

NOT_INHERITED = ("FALSEOK_", "VLLM_", "UCX_", "NIXL_")

EXECUTORS: dict[str, dict[str, str]] = {
    # vLLM's CPU platform replaces the uniproc executor by worker processes unless this is off. They wait for each
    # other by spinning, which two cores cannot bear; uniproc is also what one GPU per engine uses.
    "uni": {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    "mp": {},
}

SERVER = "vllm.entrypoints.openai.api_server"
"""`vllm serve` fails: the package is installed as vllm-cpu."""

SERVE = Path(__file__).with_name("serve_engine.py")
"""Does what `vllm serve` would do where the module above cannot: several front-end processes."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start one process of a pair."""

    role: str
    command: list[str]
    environment: dict[str, str]
    log: Path


def engine_launch(role: Role, state: PairState, model: Model, fault: Fault, python: Path) -> Launch:
    """How to start one engine of the pair."""
    ports = state.ports
    port, side_channel = (
        (ports.prefill, ports.prefill_side_channel)
        if role == "prefill"
        else (ports.decode, ports.decode_side_channel)
    )
    side = state.prefill if role == "prefill" else state.decode
    connector = connector_named(state.connector)
    transfer = kv_transfer_config(role, connector, state.directory, nixl_settings(role, state, fault))
    hybrid = "--no-disable" if connector.hybrid_cache else "--disable"
    command = [
        str(python),
        *([str(SERVE)] if side.api_server_count > 1 else ["-m", SERVER]),
        *("--model", state.model_folder, "--served-model-name", state.served_model),
        *("--host", LOOPBACK, "--port", str(port)),
        "--enforce-eager",
        *("--max-model-len", str(MAX_MODEL_TOKENS)),
        *("--kv-cache-memory-bytes", str(model.kv_cache_bytes)),
        f"{hybrid}-hybrid-kv-cache-manager",
        *("--kv-transfer-config", json.dumps(transfer)),
        *(fault.prefill_arguments if role == "prefill" else fault.decode_arguments),
        *side.command_line(),
    ]
    environment = engine_environment(role, state) | {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel)}
    return Launch(
        role=role,
        command=command,
        environment=inherited_environment() | environment,
        log=state.directory / f"{role}.log",
    )


def engine_environment(role: Role, state: PairState) -> dict[str, str]:
    """What is set for an engine beside the caller's own environment."""
    collector = {
        "FALSEOK_ENABLED": "1" if state.collector else "0",
        "FALSEOK_SPOOL_DIR": str(state.spool),
        "FALSEOK_SALT": state.salt,
        "FALSEOK_ENGINE_GROUP": f"{state.name}-{role}",
    }
    side = state.prefill if role == "prefill" else state.decode
    executor = EXECUTORS["mp" if side.several_processes else state.executor]
    return ENGINE_ENVIRONMENT | executor | collector | state.environment


def inherited_environment() -> dict[str, str]:
    """Our own environment without what would make a lab behave otherwise on another machine."""
    return {
        name: value
        for name, value in environment_without_virtualenv().items()
        if not name.startswith(NOT_INHERITED)
    }


def nixl_settings(role: Role, state: PairState, fault: Fault) -> Mapping[str, object]:
    """What goes into NIXL's `kv_connector_extra_config` of one engine."""
    lease = {} if state.lease_seconds is None else {"kv_lease_duration": state.lease_seconds}
    of_fault = fault.prefill_connector_config if role == "prefill" else fault.decode_connector_config
    return lease | of_fault


ROUTER_MIDDLEWARE = "falseok_collector.middleware.FalseOKMiddleware"
"""Named, not imported: the lab knows only the event contract of the collector."""


def router_launch(state: PairState) -> Launch:
    """How to start the router, with the Python that runs this."""
    command = [
        *(sys.executable, "-m", "falseok_lab.router"),
        *("--port", str(state.ports.router)),
        *("--prefill", state.prefill_url, "--decode", state.decode_url),
        *(("--middleware", ROUTER_MIDDLEWARE) if state.router_collector else ()),
    ]
    collector = {"FALSEOK_SPOOL_DIR": str(state.spool), "FALSEOK_SALT": state.salt}
    return Launch(
        role="router",
        command=command,
        environment=environment_without_virtualenv() | (collector if state.router_collector else {}),
        log=state.directory / "router.log",
    )
