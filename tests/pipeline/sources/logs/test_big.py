"""Gigabytes: memory stays flat, the rate is bearable, every line is counted."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.pipeline.sources.logs.big import write_big_log

REPOSITORY = Path(__file__).parents[4]
PROGRAM = """
import json, resource, sys, time
from pathlib import Path
from falseok_pipeline.sources.logs.ingest import Inputs, ingest

class Store:
    events = 0
    def insert_events(self, lines):
        Store.events += lines.count(b"\\n")
    def insert_dead_letters(self, letters, now_micros):
        pass

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before, began = peak(), time.monotonic()
read = ingest(Inputs(decode=[Path(sys.argv[1])], year=2026), Store())
counts = read.counts
print(json.dumps({
    "grown_bytes": peak() - before, "seconds": time.monotonic() - began, "lines": counts.lines, "events": Store.events,
    "accounted": counts.understood.total() + counts.meaningless.total() + counts.dead_letters,
    "failures": len(read.failures),
}))
"""


def measured(path: Path) -> dict[str, float]:
    """What reading the file took, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], check=True, capture_output=True, cwd=REPOSITORY
    )
    found: dict[str, float] = msgspec.json.decode(done.stdout)
    return found


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    """200 MB take hardly more memory than 20 MB; what grows is what is known of failed requests."""
    small, big = tmp_path / "small.log", tmp_path / "big.log"
    write_big_log(small, 20_000_000)
    lines, failures = write_big_log(big, 200_000_000)
    little, much = measured(small), measured(big)
    assert (lines, lines, failures) == (much["lines"], much["accounted"], much["failures"])
    assert 16_000_000 > much["grown_bytes"] - little["grown_bytes"]
    assert 5_000_000 < big.stat().st_size / much["seconds"]


def test_the_generator_writes_what_is_understood(tmp_path: Path) -> None:
    """The same with two megabytes, so that the slow test cannot rot unseen."""
    path = tmp_path / "decode.log"
    lines, failures = write_big_log(path, 2_000_000)
    found = measured(path)
    assert (lines, lines, failures) == (found["lines"], found["accounted"], found["failures"])
    assert found["events"] >= 2 * failures
