"""What a hook costs the engine, call by call, beside an empty wrapper and the bare function.

    python -m bench.hook_cost

All variants of a hook run in turns, in one process; every call is timed on its own. Budget: over an empty
wrapper at most 5 microseconds (p50) and 25 (p99).
"""

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import wrapt
from bench.measurement import microseconds, write_result

from falseok_collector.attributes import SchedFinish
from falseok_collector.emitter import Emitter
from falseok_collector.hooks.api_server import ApiServerObserver
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.probe import Probe
from falseok_collector.hooks.scheduler import SchedulerObserver
from falseok_collector.hooks.table import hook_table
from falseok_collector.hooks.worker import WorkerObserver
from falseok_collector.settings import Settings

ROUNDS = 200
CALLS_A_ROUND = 200
EVENTS_A_SECOND = 2_000
SECONDS_WITH_SENDER = 5.0
BUDGET_US = {"p50": 5.0, "p99": 25.0}

Samples = list[int]
Action = Callable[[], object]


BLOCKS = [SimpleNamespace(block_id=1)]


class Connector:
    """Stands for the facade of vLLM's connector: its methods do next to nothing, so that the hook shows."""

    engine_id = "engine-0123456789abcdef"
    connector_worker = None

    def on_new_request(self, request: Any) -> None:
        pass

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any:  # noqa: ARG002 - vLLM's own names
        return False, None

    def get_new_blocks(self, num_blocks: int) -> list[Any]:  # noqa: ARG002 - as above
        return BLOCKS

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> None:
        pass

    def get_finished(self, finished_req_ids: Any) -> Any:  # noqa: ARG002 - as above
        return None, None


@dataclass
class Comparison:
    """One hook: the same call on the bare class, under an empty wrapper and under the probe."""

    name: str
    what: str
    variants: dict[str, Action]
    samples: dict[str, Samples] = field(default_factory=lambda: {"bare": [], "empty": [], "probe": []})

    def run_round(self, calls: int) -> None:
        for variant, action in self.variants.items():
            self.samples[variant] += timed(action, calls)

    def result(self) -> dict[str, Any]:
        figures = {variant: microseconds(samples) for variant, samples in self.samples.items()}
        return {"what": self.what, **figures, "over_empty_wrapper": over_empty(figures)}


def over_empty(figures: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What the probe adds; its slowest percent is held against the typical empty call."""
    typical = figures["empty"]["p50_us"]
    added = {name: round(figures["probe"][f"{name}_us"] - typical, 3) for name in BUDGET_US}
    return {
        **{f"{name}_us": value for name, value in added.items()},
        "p50_ratio": round(figures["probe"]["p50_us"] / typical, 2),
        "within_budget": all(added[name] <= most for name, most in BUDGET_US.items()),
    }


def timed(action: Action, calls: int) -> Samples:
    """Nanoseconds of each of so many calls."""
    samples = []
    clock = time.perf_counter_ns
    for _ in range(calls):
        begin = clock()
        action()
        samples.append(clock() - begin)
    return samples


def request() -> Any:
    return SimpleNamespace(
        request_id="chatcmpl-5f0c2b1e-8f1a-4c55-9d3e-0123456789ab-0123abcd",
        kv_transfer_params={
            "do_remote_prefill": True,
            "remote_engine_id": "engine-fedcba9876543210",
            "remote_request_id": "chatcmpl-5f0c2b1e-8f1a-4c55-9d3e-0123456789ab-fedc4321",
            "remote_block_ids": [list(range(64))],
            "remote_num_tokens": 1_000,
        },
        trace_headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        prompt_token_ids=list(range(1_000)),
        num_prompt_tokens=1_000,
        num_output_tokens=128,
        prefill_stats=None,
        num_preemptions=0,
        num_nans_in_logits=0,
        lora_request=None,
        status=SimpleNamespace(name="FINISHED_STOPPED"),
        get_finished_reason=lambda: "stop",
    )


def report(hook: str, target: str, reason: str, detail: str) -> None:
    raise RuntimeError(f"{hook} on {target}: {reason}, {detail}")


def hooked(hook: Hook, attribute: str) -> Any:
    """A connector of a class of its own, with the hook on one method."""
    owner = type("Hooked", (Connector,), {attribute: vars(Connector)[attribute]})
    probe = Probe(
        hook.name, attribute, before=hook.before, after=hook.after, failed=hook.failed, report=report
    )
    probe.install(owner, attribute, hook.parameters)
    return owner()


def empty(attribute: str) -> Any:
    """The same with a wrapper that only calls through."""

    def through(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    wrapper = wrapt.FunctionWrapper(vars(Connector)[attribute], through)
    return type("Empty", (Connector,), {attribute: wrapper})()


def compare(hook: Hook, attribute: str, what: str, *arguments: Any) -> Comparison:
    variants = {"bare": Connector(), "empty": empty(attribute), "probe": hooked(hook, attribute)}
    actions: dict[str, Action] = {
        name: partial(getattr(connector, attribute), *arguments) for name, connector in variants.items()
    }
    return Comparison(hook.name, what, actions)


def comparisons(emitter: Emitter) -> list[Comparison]:
    """An event as plain as can be, then hooks of the table that run once a request or once a step."""
    worker = WorkerObserver(emitter)
    scheduler = SchedulerObserver(emitter)
    table = hook_table(emitter, worker, scheduler, ApiServerObserver(emitter))
    by_name = {hook.name: hook for hook in table}
    one_event = Hook(
        "one_event",
        "bench",
        ("on_new_request",),
        "",
        before=lambda _: emitter.emit(SchedFinish(output_tokens=1)),
    )
    asked = request()
    allocation = compare(by_name["core.allocate"], "get_new_blocks", "a block, 4,096 offered ones watched", 1)
    pool = SimpleNamespace(block_pool=allocation.variants["probe"].func.__self__)  # type: ignore[attr-defined]
    scheduler.blocks.use_pool_of(SimpleNamespace(kv_cache_manager=pool))
    scheduler.blocks.offer("engine/request", "request", "", [list(range(100, 4_196))])
    return [
        compare(one_event, "on_new_request", "wrapper and one event", asked),
        compare(by_name["core.admit"], "on_new_request", "sched.admit, 64 offered blocks", asked),
        compare(by_name["core.finish"], "request_finished_all_groups", "sched.finish", asked, ([1],)),
        compare(by_name["worker.results"], "get_finished", "every engine step, nothing received", None),
        allocation,
        compare(by_name["core.output"], "update_from_output", "every engine step, no reuse", None, None),
    ]


def measure_in_turns(emitter: Emitter) -> dict[str, Any]:
    """Nothing else runs: the ring is emptied between the rounds, as the sender would."""
    compared = comparisons(emitter)
    for comparison in compared:
        comparison.run_round(2_000)  # warm up
        comparison.samples = {variant: [] for variant in comparison.samples}
    emitter.ring.take(sys.maxsize)
    gc.collect()
    for _ in range(ROUNDS):
        for comparison in compared:
            comparison.run_round(CALLS_A_ROUND)
            emitter.ring.take(sys.maxsize)
    return {comparison.name: comparison.result() for comparison in compared}


def measure_with_sender(emitter: Emitter) -> dict[str, Any]:
    """The sender thread encodes and writes to a spool meanwhile, at a rate an engine may have."""
    comparison = comparisons(emitter)[0]
    emitter.start()
    main, process, events = time.thread_time(), time.process_time(), 0
    deadline = time.monotonic() + SECONDS_WITH_SENDER
    while time.monotonic() < deadline:
        comparison.run_round(1)
        events += 1
        time.sleep(1 / EVENTS_A_SECOND)
    emitter.close()
    sender = (time.process_time() - process) - (time.thread_time() - main)
    return {
        **comparison.result(),
        "what": "wrapper and one event, while the sender writes to a spool",
        "events_a_second": round(events / SECONDS_WITH_SENDER),
        "sender_processor_us_an_event": round(sender / events * 1e6, 2),
        "events_dropped": emitter.ring.dropped,
    }


def main() -> None:
    with TemporaryDirectory() as directory:
        result: dict[str, Any] = {
            "budget_us": BUDGET_US,
            "calls_a_variant": ROUNDS * CALLS_A_ROUND,
            "hooks": measure_in_turns(Emitter(Settings(spool_dir=directory))),
            "with_sender": measure_with_sender(Emitter(Settings(spool_dir=directory))),
        }
    path = write_result("hook_cost", result)
    for name, figures in {**result["hooks"], "one_event, sender at work": result["with_sender"]}.items():
        added = figures["over_empty_wrapper"]
        print(
            f"{name:28} bare {figures['bare']['p50_us']:6.2f}  empty {figures['empty']['p50_us']:6.2f}  "
            f"probe {figures['probe']['p50_us']:6.2f} us (p50)   adds {added['p50_us']:5.2f} (p50) "
            f"{added['p99_us']:6.2f} (p99)   {'within' if added['within_budget'] else 'OVER'} budget"
        )
    print(f"written to {path}")


if __name__ == "__main__":
    main()
