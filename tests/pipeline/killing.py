"""Kills a real service process with SIGKILL at random moments, and starts it again until everything is stored."""

import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from falseok_pipeline.data_directory import DataDirectory

_SERVICE = """
import sys
from pathlib import Path
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service
from falseok_pipeline.sources.batch_building import BatchLimits
limits = BatchLimits(lines=int(sys.argv[2]), size_bytes=int(sys.argv[3]))
with Service.open(DataDirectory(Path(sys.argv[1])), serve_queries=False, limits=limits) as service:
    print("open", flush=True)
    service.run_once(lambda statistics: print("batch", flush=True))
"""


@dataclass(frozen=True)
class Plan:
    """How the service works through the spool, so that kills find it at work."""

    data: DataDirectory
    batch_lines: int
    batch_bytes: int


def durable_bytes(data: DataDirectory) -> int:
    """Bytes of the spools whose events are durable in the store, as committed."""
    try:
        document = msgspec.json.decode(data.offsets_file.read_bytes())
    except FileNotFoundError:
        return 0
    return sum(document["segments"].values())


def spooled_bytes(data: DataDirectory) -> int:
    """Bytes of the spools."""
    return sum(path.stat().st_size for spool in data.spools() for path in spool.iterdir())


def run_to_the_end(plan: Plan) -> float:
    """Let the service store everything that is there; seconds a batch took on average."""
    process = _start(plan)
    began = time.monotonic()
    output, errors = process.communicate()
    assert 0 == process.returncode, errors
    return (time.monotonic() - began) / max(output.count("batch"), 1)


def kill_again_and_again(plan: Plan, times: int, batch_seconds: float, chance: random.Random) -> list[int]:
    """Start the service and kill it in the middle of its work, `times` times; durable bytes at each kill.

    Each process is let live for a batch or two and a random part of a batch more.
    """
    durable = []
    for _ in range(times):
        process = _start(plan)
        assert process.stdout is not None
        if not durable_bytes(plan.data) or chance.random() < 0.5:
            assert "batch\n" == process.stdout.readline()
        time.sleep(chance.uniform(0.0, 1.2 * batch_seconds))  # the moment of a kill is what this is about
        process.kill()
        process.communicate()
        assert -9 == process.returncode, "it had ended before it was killed"
        durable.append(durable_bytes(plan.data))
    return durable


def _start(plan: Plan) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVICE, str(plan.data.path), str(plan.batch_lines), str(plan.batch_bytes)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "open\n" == first, process.communicate()
    return process


def copy_spool(source: Path, destination: Path) -> None:
    """The same segments in another spool, without copying their bytes."""
    destination.mkdir(parents=True)
    for path in source.iterdir():
        (destination / path.name).hardlink_to(path)
