"""`falseok lab up`: build what is needed, start prefill, decode and router."""

import time
from typing import Annotated, Any

import typer

from falseok.consoles import progress, results, write_json
from falseok.lab_options import (
    CacheOption,
    ConnectorOption,
    FaultOption,
    ModelOption,
    VllmOption,
    cache_directory,
)
from falseok.lab_progress import LabProgress
from falseok.options import DataOption, JsonOption, data_argument
from falseok.render_lab import lab_document
from falseok_lab import pair
from falseok_lab.pair import PairSettings
from falseok_lab.sides import Side
from falseok_pipeline.data_directory import DataDirectory


def _size(option: str, what: str) -> Any:
    return typer.Option(option, min=1, metavar="N", help=what)


def _arguments(option: str, role: str) -> Any:
    shown = f"One more vLLM argument for {role}, as {option}=--block-size=64; may be given several times."
    return typer.Option(option, metavar="ARGUMENT", help=shown)


def up(
    vllm: VllmOption = "0.27.0",
    model: ModelOption = "tiny",
    fault: FaultOption = "none",
    connector: ConnectorOption = "pull",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the new lab.")] = "pair",
    prefill_ranks: Annotated[
        int, _size("--prefill-tensor-parallel-size", "Tensor-parallel ranks of prefill.")
    ] = 1,
    decode_ranks: Annotated[
        int, _size("--decode-tensor-parallel-size", "Tensor-parallel ranks of decode.")
    ] = 1,
    data_parallel: Annotated[int, _size("--data-parallel-size", "Data-parallel engine cores of decode.")] = 1,
    api_servers: Annotated[int, _size("--api-server-count", "Front-end processes of decode.")] = 1,
    kv_cache_blocks: Annotated[
        int | None, _size("--kv-cache-blocks", "Blocks of decode's KV cache; few of them make it preempt.")
    ] = None,
    lease: Annotated[
        int | None,
        _size("--lease-seconds", "How long prefill keeps blocks nobody has read [default: vLLM's, 30]."),
    ] = None,
    router_collector: Annotated[
        bool, typer.Option("--router-collector", help="The router tells its answers, too.")
    ] = False,
    prefill_argument: Annotated[list[str] | None, _arguments("--prefill-argument", "prefill")] = None,
    decode_argument: Annotated[list[str] | None, _arguments("--decode-argument", "decode")] = None,
    cache: CacheOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start two real engines and a router; builds (and keeps) the engines' environment the first time.

    The engines run on the CPU, with the collector installed as a user would. Ends when all three answer.

    \b
    Examples:
      falseok lab up
      falseok lab up --vllm 0.27.0 --model tiny --fault dtype-mismatch
      falseok lab up --vllm 0.32.0 --fault dtype-mismatch --name new --json
      falseok lab up --vllm 0.32.0 --connector push
      falseok lab up --kv-cache-blocks 20 --decode-argument=--max-num-seqs=8
    """
    directory = DataDirectory.resolve(data)
    settings = PairSettings(
        name=name,
        data=directory.path,
        cache=cache_directory(directory, cache),
        vllm=vllm,
        model=model,
        fault=fault,
        connector=connector,
        lease_seconds=lease,
        router_collector=router_collector,
        prefill=Side(tensor_parallel_size=prefill_ranks, arguments=prefill_argument or []),
        decode=Side(
            tensor_parallel_size=decode_ranks,
            data_parallel_size=data_parallel,
            api_server_count=api_servers,
            kv_cache_blocks=kv_cache_blocks,
            arguments=decode_argument or [],
        ),
    )
    with LabProgress(progress(), time.monotonic) as reporter:
        state = pair.up(settings, reporter)
    if as_json:
        write_json(lab_document(state))
        return
    shown = data_argument(data)
    lines = (
        f"lab {state.name} is up: vLLM {state.vllm}, {state.model}, {state.connector}, fault {state.fault}",
        f"  router {state.router_url}   prefill {state.prefill_url}   decode {state.decode_url}",
        f"  events {state.spool}",
        f"next: falseok lab drive -n 32 --name {state.name}{shown}",
        f"      falseok run --once{shown}",
        f"      falseok triage incidents{shown}",
        f"      falseok lab down --name {state.name}{shown}",
    )
    for line in lines:
        results().print(line, soft_wrap=True)
