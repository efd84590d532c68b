"""The pipeline against the store's own speed: the same bytes, the same tables, side by side in one run.

The pipeline reads a spool, validates every line, inserts and commits offsets. The store alone reads one file of the
same lines by itself (`INSERT … SELECT FROM file`), the ceiling that quality budgets refer to. Each variant is a
process of its own, because chDB opens one path a process; they take turns, and the better run of each counts.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measurement import write_result

from falseok_lab import recording
from falseok_pipeline import replay
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.service import Service
from falseok_pipeline.sources.spool import SpoolDirectory

RECORDING = "vllm-0.27.0-dtype-mismatch"
TIMES = 640
ROUNDS = 2
BUDGET_RATIO = 0.5
_COLUMNS = (
    "v UInt16, id String, ts Int64, mono Int64, boot String, seq Int64, name String, origin String, engine_id String, "
    "`group` String, rank Int32, host String, pid Int32, request_id String, external_id String, transfer_id String, "
    "trace_id String, span_id String, attrs JSON"
)
_BY_THE_STORE = (
    "INSERT INTO events SELECT * FROM file('{file}', JSONEachRow, '{columns}') "
    "SETTINGS input_format_try_infer_dates = 0, input_format_try_infer_datetimes = 0, max_insert_threads = 1, optimize_on_insert = 0"
)


def main() -> None:
    """Measure, print and write the result."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        lines = list(replay.multiply(recording.load(recording.shipped(RECORDING)).lines(), TIMES))
        events_file = place / "events.ndjson"
        events_file.write_bytes(b"".join(line + b"\n" for line in lines))
        replay.write_spool(place / "spool", lines)
        runs: dict[str, list[dict[str, float]]] = {"pipeline": [], "store_alone": []}
        for number in range(ROUNDS):
            for variant, given in (("pipeline", place / "spool"), ("store_alone", events_file)):
                print(f"{variant}, run {number + 1} of {ROUNDS}: {len(lines)} events …", flush=True)
                runs[variant].append(_measure(variant, given, place / f"{variant}-{number}"))
    best = {name: max(found, key=lambda run: run["events_per_second"]) for name, found in runs.items()}
    ratio = best["pipeline"]["events_per_second"] / best["store_alone"]["events_per_second"]
    result: dict[str, Any] = {
        "recording": RECORDING,
        "events": len(lines),
        "bytes_an_event": round(sum(map(len, lines)) / len(lines), 1),
        "best": best,
        "ratio_events_per_second": round(ratio, 3),
        "budget_ratio": BUDGET_RATIO,
        "runs": runs,
    }
    print(f"the pipeline stores {ratio:.2f} of what the store alone does")
    print(write_result("pipeline_rate", result))


def _measure(variant: str, given: Path, data: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.pipeline_rate", variant, str(given), str(data)],
        check=True,
        capture_output=True,
        cwd=Path(__file__).resolve().parents[1],
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _run(variant: str, given: Path, data: Path) -> None:
    """One variant in this process; prints its figures as JSON."""
    directory = DataDirectory(data)
    with EmbeddedStore(directory.store) as store:
        store.migrate(1)
        if variant == "store_alone":
            began, cpu = time.perf_counter(), _cpu_seconds()
            store.command(_BY_THE_STORE.format(file=given, columns=_COLUMNS))
            _report(store, began, cpu)
            return
    with Service.open(
        directory, version="bench", spools=lambda: [SpoolDirectory(given)], serve_queries=False
    ) as service:
        began, cpu = time.perf_counter(), _cpu_seconds()
        service.run_once()
        _report(service.store, began, cpu)


def _report(store: Any, began: float, cpu: float) -> None:
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - cpu
    stored = int(store.query("SELECT uniqExact(id) AS n FROM events")[0]["n"])
    disk = store.query("SELECT sum(bytes_on_disk) AS n FROM system.parts WHERE active AND table = 'events'")
    figures = {
        "events": stored,
        "seconds": round(seconds, 2),
        "events_per_second": round(stored / seconds),
        "events_per_cpu_second": round(stored / cpu_seconds),
        "events_bytes_on_disk_an_event": round(int(disk[0]["n"]) / stored, 1),
    }
    print(json.dumps(figures))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
