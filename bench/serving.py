"""What the collector costs a real prefill/decode pair: off, on, and vLLM's own OTLP tracing, in turns.

    python -m bench.serving                    SmolLM2 on vLLM 0.32.0, about 15 minutes
    python -m bench.serving --model tiny       the worst case: a model that takes no time itself
    python -m bench.serving --blocks 1 --rounds 3 --requests 4      a quick look
    python -m bench.serving --control          with a second pair without collector: what two equal pairs differ by

All pairs are up at once and the load goes from one to the next, in another order every round; pairs without load are
stopped (SIGSTOP), so that six idle engines do not share two cores with the one that is measured. Two processes of the
same build never run equally fast, so the pairs are started anew for every block of rounds. Throughput is what a client
sees; processor seconds are those of both engines.

Two equal pairs on two cores differ by several percent in such a round (`--control` shows it), more than the collector
may cost. Where the interval of a ratio leaves it open whether the budget holds, what can be counted decides: the processor
time of the collector's threads, plus every call of a hook and every chunk of an answer at its measured cost. Run
`bench.hook_cost` and `bench.tap_cost` before, or `bench.collector`, which does all.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import msgspec
import psutil
from bench.measurement import read_result, write_result
from bench.otlp_receiver import receiver
from bench.serving_figures import HIGHER_IS_BETTER, Round, as_rows, own_share, ratios, round_of, verdict

from falseok_lab.drive import DriveSettings, drive
from falseok_lab.pair import PairSettings, PairState, down, up
from falseok_lab.sides import Side

REPOSITORY = Path(__file__).resolve().parents[1]
LEAST_RATIO = 0.99
VARIANTS = ("off", "on", "otlp")
CONTROL = "control"
MEMORY_BYTES = 4 * 1024**3
SETTLE_SECONDS = 0.5
"""Between stopping and measuring: timers that came due while a pair was stopped fire in this time."""


class Told:
    """Shows what the lab is doing."""

    def step(self, text: str) -> None:
        """A step of the lab."""
        print(text, file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """Of no interest here."""


@contextmanager
def pair(variant: str, options: argparse.Namespace, data: Path, traces: str) -> Iterator[PairState]:
    """One pair with the collector off or on, or with tracing."""
    side, environment = Side(), {}
    if variant == "otlp":
        side = Side(arguments=["--otlp-traces-endpoint", f"{traces}/v1/traces"])
        environment = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
    settings = PairSettings(
        name=variant,
        data=data,
        cache=Path(os.environ.get("FALSEOK_LAB_CACHE") or REPOSITORY / ".lab-cache"),
        vllm=options.vllm,
        model=options.model,
        collector=variant == "on",
        collector_source=REPOSITORY,
        environment=environment,
        prefill=side,
        decode=side,
        memory_needed_bytes=MEMORY_BYTES,
    )
    state = up(settings, Told())
    try:
        yield state
    finally:
        go_on(state)
        down(variant, data, Told())


def processes_of(state: PairState, *, router: bool) -> list[psutil.Process]:
    """All processes of both engines, and those of the router if asked for."""
    leaders = [psutil.Process(own.pid) for own in state.processes if router or own.role != "router"]
    return [process for leader in leaders for process in (leader, *leader.children(recursive=True))]


def processor_seconds(state: PairState) -> float:
    """User and system time of both engines with all their processes."""
    times = [process.cpu_times() for process in processes_of(state, router=False)]
    return sum(own.user + own.system for own in times)


def collector_seconds(state: PairState) -> float:
    """Processor time of the collector's own threads in both engines (schedstat, proc(5): nanoseconds)."""
    nanoseconds = 0
    for process in processes_of(state, router=False):
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            if (task / "comm").read_text(encoding="utf-8").startswith("falseok-"):
                nanoseconds += int((task / "schedstat").read_text(encoding="utf-8").split()[0])
    return nanoseconds / 1e9


def stop(state: PairState) -> None:
    """Take the processors from a pair."""
    for process in processes_of(state, router=True):
        process.suspend()


def go_on(state: PairState) -> None:
    """Let a stopped pair run again."""
    for process in processes_of(state, router=True):
        process.resume()


def one_round(state: PairState, options: argparse.Namespace) -> Round:
    """Load on one pair, which runs only for that long."""
    settings = DriveSettings(
        requests=options.requests,
        concurrency=options.concurrency,
        max_tokens=options.max_tokens,
        ignore_eos=True,
        stream="always",
        endpoint="chat",
    )
    go_on(state)
    time.sleep(SETTLE_SECONDS)
    own, processor, begin = collector_seconds(state), processor_seconds(state), time.perf_counter()
    answers = drive(state, settings)
    wall = time.perf_counter() - begin
    figures = round_of(answers, wall, processor_seconds(state) - processor, collector_seconds(state) - own)
    time.sleep(SETTLE_SECONDS)  # what the last answer still has to release and to write
    stop(state)
    return figures


def events_of(state: PairState) -> dict[str, int]:
    """What the collector wrote, what it says it lost, and how often its hooks were called."""
    dropped: dict[str, int] = {}
    calls: dict[str, int] = {}
    events = size = 0
    for segment in state.spool.glob("*.ndjson"):
        for line in segment.read_bytes().splitlines():
            events, size = events + 1, size + len(line) + 1
            event = msgspec.json.decode(line)
            if event["name"] == "collector.heartbeat":
                attributes = event.get("attrs", {})
                lost = attributes.get("events_dropped", 0) + attributes.get("events_spilled", 0)
                called = sum(hook.get("calls", 0) for hook in attributes.get("hooks", []))
                dropped[event["boot"]] = max(dropped.get(event["boot"], 0), lost)
                calls[event["boot"]] = max(calls.get(event["boot"], 0), called)
    return {
        "events": events,
        "bytes": size,
        "dropped": sum(dropped.values()),
        "hook_calls": sum(calls.values()),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the pairs, send the load in turns, end them, block after block; sum up."""
    names = (*VARIANTS, CONTROL) if options.control else VARIANTS
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    collector = Counter[str]()
    with receiver() as traces:
        for block in range(options.blocks):
            print(f"block {block + 1} of {options.blocks}", file=sys.stderr, flush=True)
            collector.update(one_block(rounds, block, options, traces))
        exports = int(httpx.get(traces, trust_env=False).text)
    if not exports or not collector["events"]:
        raise ValueError(f"nothing to compare: {exports} trace exports, {collector['events']} events")
    served = options.blocks * (options.rounds + 1) * options.requests  # with the rounds that warmed up
    own = own_share(
        rounds["on"],
        hook_calls_per_request=collector["hook_calls"] / served,
        call_us=max(
            cost["over_empty_wrapper"]["p99_us"] for cost in read_result("hook_cost")["hooks"].values()
        ),
        tokens=options.max_tokens,
        chunk_us=read_result("tap_cost")["over_pass_through"]["p99_us"],
    )
    result = {
        "vllm": options.vllm,
        "model": options.model,
        "load": {
            "blocks": options.blocks,
            "rounds_a_block": options.rounds,
            "requests_a_round": options.requests,
            "concurrency": options.concurrency,
            "output_tokens_a_request": options.max_tokens,
        },
        "collector": {name: collector[name] for name in ("events", "bytes", "dropped", "hook_calls")},
        "collector_seconds_per_request": {name: round(value, 6) for name, value in asdict(own).items()},
        "collector_share": round(own.share, 4),
        "trace_exports": exports,
        "on_over_off": ratios(rounds, "on", "off"),
        "otlp_over_off": ratios(rounds, "otlp", "off"),
        "on_over_otlp": ratios(rounds, "on", "otlp"),
    }
    if options.control:
        result["control_over_off"] = ratios(rounds, CONTROL, "off")
    return {**result, "rounds": {name: as_rows(kept) for name, kept in rounds.items()}}


def one_block(
    rounds: dict[str, list[Round]], block: int, options: argparse.Namespace, traces: str
) -> dict[str, int]:
    """Pairs of their own, and rounds on them in turns, added to `rounds`; what the collector wrote."""
    names = list(rounds)
    with TemporaryDirectory() as folder, ExitStack() as running:
        states = {}
        for name in _turned(names, block):
            states[name] = running.enter_context(pair(name, options, Path(folder), traces))
            one_round(states[name], options)  # warm up
        for number in range(options.rounds):
            for name in _turned(names, block + number):
                rounds[name].append(one_round(states[name], options))
            so_far = ", ".join(f"{name} {kept[-1].requests_per_second:.2f}" for name, kept in rounds.items())
            print(f"round {number + 1} of {options.rounds}: requests/s {so_far}", file=sys.stderr, flush=True)
        go_on(states["on"])
        time.sleep(SETTLE_SECONDS)
        return events_of(states["on"])


def _turned(names: list[str], by: int) -> list[str]:
    shift = by % len(names)
    return [*names[shift:], *names[:shift]]


def judged(result: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What is held against the budget: measure, figure, budget, whether it holds."""
    on, against, throughput = result["on_over_off"], result["on_over_otlp"], HIGHER_IS_BETTER
    share, most = result["collector_share"], 1 - LEAST_RATIO
    within = share <= most
    rows = [
        (
            "collector's counted share of processor time",
            f"{share:.4f}",
            f"<= {most:g}",
            "yes" if within else "no",
        )
    ]
    rows += [
        (
            f"{name}, on/off",
            _shown(on[name]),
            f">= {LEAST_RATIO}",
            _decided(on[name], LEAST_RATIO, within=within),
        )
        for name in throughput
    ]
    rows += [(f"{name}, on/OTLP tracing", _shown(against[name]), "-", "-") for name in throughput]
    rows += [
        (f"{name}, on/off", _shown(on[name]), "-", "-")
        for name in ("processor_seconds_per_request", "inter_token_latency_p99_seconds")
    ]
    if control := result.get("control_over_off"):
        rows += [(f"{name}, control/off", _shown(control[name]), "-", "-") for name in throughput]
    collector = result["collector"]
    rows.append(("spool bytes an event", f"{collector['bytes'] / collector['events']:.0f}", "-", "-"))
    dropped = collector["dropped"]
    rows.append(("events dropped", str(dropped), "0", "yes" if dropped == 0 else "no"))
    return rows


def _decided(ratio: dict[str, float], least: float, *, within: bool) -> str:
    """The verdict on a ratio; where the rounds leave it open, the counted share has the last word."""
    decided = verdict(ratio, least)
    return "by count" if decided == "noise" and within and ratio["high"] >= 1 else decided


def _shown(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.4f} ({ratio['low']:.4f} to {ratio['high']:.4f})"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.serving",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--vllm", default="0.32.0")
    parser.add_argument("--model", default="smollm2", choices=("smollm2", "tiny"))
    parser.add_argument("--blocks", type=int, default=3, help="how often the pairs are started anew")
    parser.add_argument("--rounds", type=int, default=5, help="a block")
    parser.add_argument("--requests", type=int, default=8, help="a round")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--control", action="store_true", help="also a second pair without collector")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> list[tuple[str, str, str, str]]:
    """Measure, write down, print; the judged rows."""
    result = measure(parse(arguments))
    path = write_result("serving", result)
    rows = judged(result)
    for measure_, figure, budget, holds in rows:
        print(f"{measure_:48} {figure:30} {budget:8} {holds}")
    print(f"written to {path}")
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
