"""Kills a real `falseok run` with SIGKILL at random moments, and starts it again until everything is stored."""

import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from falseok_pipeline.data_directory import DataDirectory

_START_SECONDS = 120.0
_BATCH_BYTES = 2 * 1024 * 1024
"""Small enough that ten killed processes cannot reach the end."""


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


def run_to_the_end(data: DataDirectory) -> None:
    """Let `falseok run --once` store everything that is there."""
    done = subprocess.run([*_command(data), "--once"], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr


def kill_again_and_again(data: DataDirectory, times: int, chance: random.Random) -> list[int]:
    """Start `falseok run` and kill it in the middle of its work, `times` times; durable bytes at each kill.

    Each process is let live until a random part of its share of the work is durable, at least one batch, and a
    random moment more; however fast the machine, ten of them do not reach the end.
    """
    durable: list[int] = []
    share = spooled_bytes(data) // (2 * times)
    for _ in range(times):
        before = durable_bytes(data)
        enough = before + chance.randint(1, share)
        process = subprocess.Popen(_command(data), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + _START_SECONDS
        while durable_bytes(data) < enough:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "nothing became durable"
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.1))  # the moment of a kill is what this is about
        process.kill()
        process.communicate()
        assert -9 == process.returncode, "it had ended before it was killed"
        durable.append(durable_bytes(data))
    return durable


def _command(data: DataDirectory) -> list[str]:
    return [
        sys.executable,
        "-m",
        "falseok",
        "run",
        "--data",
        str(data.path),
        "--batch-bytes",
        str(_BATCH_BYTES),
    ]


def copy_spool(source: Path, destination: Path) -> None:
    """The same segments in another spool, without copying their bytes."""
    destination.mkdir(parents=True)
    for path in source.iterdir():
        (destination / path.name).hardlink_to(path)
