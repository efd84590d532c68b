"""What a process of an engine does in these tests: load the plug-in, import a release's modules, use them.

Written for children: `PREPARE` makes `Scheduler`, `Facade` and `request` available there.
"""

from pathlib import Path

from tests.collector import processes
from tests.harmlessness import engine_tree
from tests.harmlessness.reports import plain_environment
from tests.source_check.signatures import read

VERSION = "0.33.0"

PREPARE = """
import os, sys, threading, time
from types import SimpleNamespace
from falseok_collector import plugin
plugin.register()
made = plugin._installation
emitter = made._emitter
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import NixlBaseConnector as Facade
from vllm.v1.core.sched.scheduler import Scheduler
Facade.engine_id = "engine-here"
Scheduler.vllm_config = SimpleNamespace(kv_transfer_config=None)
Scheduler.failed_recving_kv_req_ids = set()
Scheduler.recompute_kv_load_failures = False
facade, scheduler = Facade(), object.__new__(Scheduler)

def request(number):
    return SimpleNamespace(
        request_id=f"cmpl-{number}-0-0123abcd", kv_transfer_params={"do_remote_prefill": True,
        "remote_engine_id": "engine-there", "remote_request_id": f"cmpl-{number}-0-fedc4321",
        "remote_block_ids": [[7, 8, 9]], "remote_num_tokens": 40}, trace_headers={}, prompt_token_ids=[1] * 40,
        all_token_ids=[1] * 40, num_prompt_tokens=40, num_computed_tokens=39, num_output_tokens=1,
        prefill_stats=None, num_preemptions=0, num_nans_in_logits=0, lora_request=None,
        status=SimpleNamespace(name="FINISHED_STOPPED"), get_finished_reason=lambda: "stop")

def serve(number):
    one = request(number)
    facade.on_new_request(one)
    facade.update_state_after_alloc(one, SimpleNamespace(blocks=[[1, 2, 3]]), 39)
    scheduler._update_waiting_for_remote_kv(one)
    answer = facade.request_finished_all_groups(one, [[1, 2, 3]])
    scheduler._free_blocks(one)
    return answer

def start():
    Scheduler(*[None] * 5)
"""
"""`serve` makes four events: admit, wait, resume, finish. `start` starts the sender, as the first scheduler does."""

EVENTS_A_REQUEST = 4


def tree(folder: Path) -> Path:
    """The package whose functions the children use; a decode engine's connector offers nothing."""
    answer = {"NixlBaseConnector.request_finished_all_groups": "False, None"}
    return engine_tree.make(folder, VERSION, read(), answer)


def run(folder: Path, code: str, *arguments: str, **variables: str) -> str:
    """Run a child to its end; what it printed. Fails with its errors when it does not exit with 0."""
    path = plain_environment(tree(folder))["PYTHONPATH"]
    return processes.run(PREPARE + code, *arguments, **({"PYTHONPATH": path} | variables))
