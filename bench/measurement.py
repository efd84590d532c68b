"""What benchmarks share: the machine they ran on, percentiles, and where results are written."""

import importlib.metadata
import os
import platform
import statistics
from pathlib import Path
from typing import Any

import msgspec

RESULTS = Path(__file__).with_name("results")


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, its load, Python and the libraries at work."""
    libraries = ("msgspec", "wrapt", "opentelemetry-api")
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "load_average_1_minute": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: importlib.metadata.version(name) for name in libraries},
    }


def microseconds(nanoseconds: list[int]) -> dict[str, float]:
    """Percentiles of single calls."""
    percentiles = statistics.quantiles(nanoseconds, n=1_000)
    return {
        "p50_us": round(percentiles[499] / 1_000, 3),
        "p90_us": round(percentiles[899] / 1_000, 3),
        "p99_us": round(percentiles[989] / 1_000, 3),
        "p999_us": round(percentiles[998] / 1_000, 3),
    }


def write_result(name: str, result: dict[str, Any]) -> Path:
    """Put a benchmark's result beside the others, with the machine it was taken on."""
    path = RESULTS / f"{name}.json"
    document = msgspec.json.encode({"command": f"python -m bench.{name}", "machine": machine(), **result})
    path.write_bytes(msgspec.json.format(document, indent=2) + b"\n")
    return path


def read_result(name: str) -> dict[str, Any]:
    """The result written last under a name."""
    result: dict[str, Any] = msgspec.json.decode((RESULTS / f"{name}.json").read_bytes())
    return result


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor()
