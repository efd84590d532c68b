"""`falseok lab up`: build what is needed, start prefill, decode and router."""

import time
from typing import Annotated

import typer

from falseok.consoles import progress, results, write_json
from falseok.lab_options import CacheOption, FaultOption, ModelOption, VllmOption, cache_directory
from falseok.lab_progress import LabProgress
from falseok.options import DataOption, JsonOption, data_argument
from falseok.render_lab import lab_document
from falseok_lab import pair
from falseok_lab.pair import PairSettings
from falseok_pipeline.data_directory import DataDirectory


def up(
    vllm: VllmOption = "0.27.0",
    model: ModelOption = "tiny",
    fault: FaultOption = "none",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the new lab.")] = "pair",
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
    """
    directory = DataDirectory.resolve(data)
    settings = PairSettings(
        name=name,
        data=directory.path,
        cache=cache_directory(directory, cache),
        vllm=vllm,
        model=model,
        fault=fault,
    )
    with LabProgress(progress(), time.monotonic) as reporter:
        state = pair.up(settings, reporter)
    if as_json:
        write_json(lab_document(state))
        return
    shown = data_argument(data)
    lines = (
        f"lab {state.name} is up: vLLM {state.vllm}, model {state.model}, fault {state.fault}",
        f"  router {state.router_url}   prefill {state.prefill_url}   decode {state.decode_url}",
        f"  events {state.spool}",
        f"next: falseok lab drive -n 32 --name {state.name}{shown}",
        f"      falseok run --once{shown}",
        f"      falseok triage incidents{shown}",
        f"      falseok lab down --name {state.name}{shown}",
    )
    for line in lines:
        results().print(line, soft_wrap=True)
