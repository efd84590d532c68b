"""Makes the shipped recordings anew from real engines: `python -m tests.e2e.make_recordings [NAME…]`.

Each recording is one pair's life: start, 32 requests, end. Decode is also asked alone where an answer can agree,
so that the manifest carries the ground truth.
"""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.engines import REPOSITORY, run_pair

from falseok_lab.record import record

DESTINATION = REPOSITORY / "lab" / "falseok_lab" / "recordings"


@dataclass(frozen=True)
class Shipped:
    """What to record under which name."""

    name: str
    vllm: str
    fault: str


RECORDINGS = (
    Shipped("vllm-0.27.0-dtype-mismatch", "0.27.0", "dtype-mismatch"),
    Shipped("vllm-0.27.0-healthy", "0.27.0", "none"),
    Shipped("vllm-0.32.0-dtype-mismatch", "0.32.0", "dtype-mismatch"),
)


def main(names: list[str]) -> None:
    """Record everything, or only the recordings named."""
    for shipped in RECORDINGS:
        if names and shipped.name not in names:
            continue
        with tempfile.TemporaryDirectory() as data:
            run = run_pair(Path(data), "pair", vllm=shipped.vllm, fault=shipped.fault, direct=True)
            destination = DESTINATION / shipped.name
            shutil.rmtree(destination, ignore_errors=True)
            record(run.state.directory, destination)
            verdicts = sorted({str(row["verdict"]) for row in run.verdicts.values()})
            print(f"{shipped.name}: {len(run.answers)} requests, verdicts {', '.join(verdicts)}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
