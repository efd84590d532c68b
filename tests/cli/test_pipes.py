"""What becomes of output that nobody reads to the end."""

import subprocess
import sys
from pathlib import Path


def test_a_reader_that_has_enough_is_no_trouble(broken: Path) -> None:
    """`… | head -1` ends quietly: no complaint, status 0."""
    command = [
        *(sys.executable, "-m", "falseok", "triage", "sql"),
        "SELECT repeat('x', 1000) AS text FROM numbers(5000)",
        *("--csv", "--data", str(broken)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert "text\n" == process.stdout.readline()
    process.stdout.close()
    assert "" == process.stderr.read()
    process.stderr.close()
    assert 0 == process.wait()
