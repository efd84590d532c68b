"""Command lines and environments of a pair."""

import json
from pathlib import Path

import msgspec
import pytest
from tests.lab.stand_in_cache import VERSIONS

from falseok_lab.connectors import Role
from falseok_lab.errors import LabError
from falseok_lab.faults import FAULTS, fault_named
from falseok_lab.launch import ROUTER_MIDDLEWARE, Launch, engine_launch, inherited_environment, router_launch
from falseok_lab.models import MODELS
from falseok_lab.ports import Ports
from falseok_lab.sides import Side
from falseok_lab.state import PairState

PORTS = Ports(router=1, prefill=2, decode=3, prefill_side_channel=4, decode_side_channel=5)
STATE = PairState(
    name="pair",
    folder="/data/lab/pair",
    vllm="0.27.0",
    model="tiny",
    model_folder="/cache/models/tiny",
    engine_folder="/cache/engine",
    fault="none",
    executor="uni",
    collector=True,
    collector_fingerprint="",
    versions=VERSIONS,
    environment={"FALSEOK_TEST": "1"},
    salt="salt",
    ports=PORTS,
    started_at="",
)


def launch(role: Role, state: PairState = STATE, fault: str = "none") -> Launch:
    """How an engine of the state would be started."""
    return engine_launch(role, state, MODELS["tiny"], FAULTS[fault], Path("/cache/engine/bin/python"))


def option(command: list[str], name: str) -> str:
    """The value after an option."""
    return command[command.index(name) + 1]


def test_the_two_engines_differ_in_role_and_ports_only() -> None:
    """A healthy pair has no other difference."""
    prefill, decode = launch("prefill"), launch("decode")
    assert ("2", "3") == (option(prefill.command, "--port"), option(decode.command, "--port"))
    roles = [json.loads(option(one.command, "--kv-transfer-config")) for one in (prefill, decode)]
    expected = {"kv_connector": "NixlConnector", "kv_load_failure_policy": "fail"}
    assert [expected | {"kv_role": "kv_producer"}, expected | {"kv_role": "kv_consumer"}] == roles
    differing = {key for key in prefill.environment if prefill.environment[key] != decode.environment[key]}
    assert {"FALSEOK_ENGINE_GROUP", "VLLM_NIXL_SIDE_CHANNEL_PORT"} == differing
    assert 2 == sum(one != other for one, other in zip(prefill.command, decode.command, strict=True))


def test_a_fault_changes_one_side() -> None:
    """The dtype mismatch is an option of decode; prefill is as it was."""
    assert ["--dtype", "float32"] == launch("decode", fault="dtype-mismatch").command[-2:]
    assert launch("prefill").command == launch("prefill", fault="dtype-mismatch").command


def test_the_collector_is_told_where_and_who_and_can_be_off() -> None:
    """One salt and one spool for both engines, a group for each; the caller's own variables win."""
    environment = launch("prefill").environment
    expected = {
        "FALSEOK_ENABLED": "1",
        "FALSEOK_SPOOL_DIR": "/data/lab/pair/spool",
        "FALSEOK_SALT": "salt",
        "FALSEOK_ENGINE_GROUP": "pair-prefill",
        "FALSEOK_TEST": "1",
    }
    assert expected == {key: value for key, value in environment.items() if key.startswith("FALSEOK_")}
    off = launch("decode", msgspec.structs.replace(STATE, collector=False))
    assert "0" == off.environment["FALSEOK_ENABLED"]


def test_the_executor_is_chosen_by_vllm_only_when_asked_to() -> None:
    """`uni` keeps the worker in the engine core; `mp` leaves vLLM's own choice for the CPU."""
    name = "VLLM_ENABLE_V1_MULTIPROCESSING"
    assert "0" == launch("prefill").environment[name]
    assert name not in launch("prefill", msgspec.structs.replace(STATE, executor="mp")).environment


def test_settings_of_other_engines_and_of_our_python_are_not_inherited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lab behaves alike whatever the shell has set."""
    for name in ("VLLM_LOGGING_LEVEL", "FALSEOK_SINKS", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "KEPT"):
        monkeypatch.setenv(name, "x")
    inherited = inherited_environment()
    assert "x" == inherited["KEPT"]
    assert set() == {"VLLM_LOGGING_LEVEL", "FALSEOK_SINKS", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"} & set(
        inherited
    )


def test_an_unknown_fault_lists_the_known_ones() -> None:
    """The message is the list to choose from."""
    with pytest.raises(LabError, match="none, dtype-mismatch"):
        fault_named("gremlins")


def test_several_processes_need_the_executor_that_has_them() -> None:
    """Two ranks cannot live inside the engine core; several front ends are started by a script of the lab's own."""
    name = "VLLM_ENABLE_V1_MULTIPROCESSING"
    state = msgspec.structs.replace(STATE, decode=Side(tensor_parallel_size=2))
    assert "2" == option(launch("decode", state).command, "--tensor-parallel-size")
    assert name not in launch("decode", state).environment
    assert "0" == launch("prefill", state).environment[name]
    several = launch("decode", msgspec.structs.replace(STATE, decode=Side(api_server_count=2))).command
    assert "serve_engine.py" == Path(several[1]).name
    assert Path(several[1]).exists()


def test_connector_and_lease_reach_both_engines_and_the_callers_arguments_come_last() -> None:
    """A connector without hybrid cache switches it off on both sides, or the two caches would differ."""
    side = Side(arguments=["--max-num-seqs=8"], kv_cache_blocks=20)
    state = msgspec.structs.replace(STATE, connector="multi", lease_seconds=5, decode=side)
    roles: tuple[Role, ...] = ("prefill", "decode")
    for role in roles:
        command = launch(role, state).command
        assert "--disable-hybrid-kv-cache-manager" in command
        children = json.loads(option(command, "--kv-transfer-config"))["kv_connector_extra_config"][
            "connectors"
        ]
        assert {"kv_lease_duration": 5} == children[0]["kv_connector_extra_config"]
    assert ["--num-gpu-blocks-override", "20", "--max-num-seqs=8"] == launch("decode", state).command[-3:]
    assert "--max-num-seqs=8" not in launch("prefill", state).command


@pytest.mark.parametrize("tells", [True, False])
def test_a_router_that_tells_its_answers(tells: bool) -> None:
    """By the collector's middleware, into the pair's own spool, under the pair's salt."""
    launch = router_launch(msgspec.structs.replace(STATE, router_collector=tells))
    assert tells == (ROUTER_MIDDLEWARE in launch.command)
    told = (launch.environment.get("FALSEOK_SPOOL_DIR"), launch.environment.get("FALSEOK_SALT"))
    assert told == ((str(STATE.spool), STATE.salt) if tells else (None, None))
