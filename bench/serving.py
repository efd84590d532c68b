"""What the collector costs a real prefill/decode pair: off, on, and vLLM's own OTLP tracing, in turns.

    python -m bench.serving                    SmolLM2 on vLLM 0.32.0, about 12 minutes
    python -m bench.serving --model tiny       the worst case: a model that takes no time itself
    python -m bench.serving --rounds 3 --requests 4      a quick look

All three pairs are up at once and only the load goes from one to the next, in another order every round. Throughput is
what a client sees; processor seconds are those of both engines, and the steadier measure on a busy machine.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import msgspec
import psutil
from bench.measurement import write_result
from bench.serving_figures import HIGHER_IS_BETTER, Round, as_rows, ratios, round_of, verdict

from falseok_lab.drive import DriveSettings, drive
from falseok_lab.pair import PairSettings, PairState, down, up
from falseok_lab.sides import Side

REPOSITORY = Path(__file__).resolve().parents[1]
LEAST_RATIO = 0.99
VARIANTS = ("off", "on", "otlp")
MEMORY_BYTES = 4 * 1024**3


class Told:
    """Shows what the lab is doing."""

    def step(self, text: str) -> None:
        """A step of the lab."""
        print(text, file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """Of no interest here."""


@contextmanager
def receiver() -> Iterator[str]:
    """A process that takes traces; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.otlp_receiver"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


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
        down(variant, data, Told())


def processor_seconds(state: PairState) -> float:
    """User and system time of both engines with all their processes."""
    total = 0.0
    for own in state.processes:
        if own.role == "router":
            continue
        leader = psutil.Process(own.pid)
        for process in (leader, *leader.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def one_round(state: PairState, options: argparse.Namespace) -> Round:
    """Load on one pair."""
    settings = DriveSettings(
        requests=options.requests,
        concurrency=options.concurrency,
        max_tokens=options.max_tokens,
        ignore_eos=True,
        stream="always",
        endpoint="chat",
    )
    processor, begin = processor_seconds(state), time.perf_counter()
    answers = drive(state, settings)
    wall = time.perf_counter() - begin
    return round_of(answers, wall, processor_seconds(state) - processor)


def events_of(state: PairState) -> dict[str, int]:
    """What the collector wrote, and what it says it lost."""
    dropped: dict[str, int] = {}
    events = size = 0
    for segment in state.spool.glob("*.ndjson"):
        for line in segment.read_bytes().splitlines():
            events, size = events + 1, size + len(line) + 1
            event = msgspec.json.decode(line)
            if event["name"] == "collector.heartbeat":
                attributes = event.get("attrs", {})
                lost = attributes.get("events_dropped", 0) + attributes.get("events_spilled", 0)
                dropped[event["boot"]] = max(dropped.get(event["boot"], 0), lost)
    return {"events": events, "bytes": size, "dropped": sum(dropped.values())}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the pairs, send the load in turns, end them, sum up."""
    rounds: dict[str, list[Round]] = {variant: [] for variant in VARIANTS}
    with TemporaryDirectory() as folder, receiver() as traces:
        data = Path(folder)
        with ExitStack() as running:
            states = {name: running.enter_context(pair(name, options, data, traces)) for name in VARIANTS}
            for state in states.values():
                one_round(state, options)  # warm up
            for number in range(options.rounds):
                shift = number % len(VARIANTS)
                for name in (*VARIANTS[shift:], *VARIANTS[:shift]):
                    rounds[name].append(one_round(states[name], options))
                so_far = ", ".join(
                    f"{name} {kept[-1].requests_per_second:.2f}" for name, kept in rounds.items()
                )
                print(
                    f"round {number + 1} of {options.rounds}: requests/s {so_far}",
                    file=sys.stderr,
                    flush=True,
                )
            exports = int(httpx.get(traces, trust_env=False).text)
        events = events_of(states["on"])
    if not exports or not events["events"]:
        raise ValueError(f"nothing to compare: {exports} trace exports, {events['events']} events")
    return {
        "vllm": options.vllm,
        "model": options.model,
        "load": {
            "rounds": options.rounds,
            "requests_a_round": options.requests,
            "concurrency": options.concurrency,
            "output_tokens_a_request": options.max_tokens,
        },
        "collector": events,
        "trace_exports": exports,
        "on_over_off": ratios(rounds, "on", "off"),
        "otlp_over_off": ratios(rounds, "otlp", "off"),
        "on_over_otlp": ratios(rounds, "on", "otlp"),
        "rounds": {name: as_rows(kept) for name, kept in rounds.items()},
    }


def judged(result: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What is held against the budget: measure, figure, budget, whether it holds."""
    on, against, throughput = result["on_over_off"], result["on_over_otlp"], HIGHER_IS_BETTER
    rows = [
        (f"{name}, on/off", _shown(on[name]), f">= {LEAST_RATIO}", verdict(on[name], LEAST_RATIO))
        for name in throughput
    ]
    rows += [
        (f"{name}, on/OTLP tracing", _shown(against[name]), ">= 1", verdict(against[name], 1.0))
        for name in throughput
    ]
    rows += [
        (f"{name}, on/off", _shown(on[name]), "-", "-")
        for name in ("processor_seconds_per_request", "inter_token_latency_p99_seconds")
    ]
    dropped = result["collector"]["dropped"]
    rows.append(("events dropped", str(dropped), "0", "yes" if dropped == 0 else "no"))
    return rows


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
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=48)
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
