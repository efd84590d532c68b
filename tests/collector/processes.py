"""Runs a piece of Python in a process of its own, with the collector importable and no settings inherited."""

import os
import subprocess
import sys
from pathlib import Path

import falseok_collector

SOURCES = str(Path(falseok_collector.__file__).parents[1])


def environment(**variables: str) -> dict[str, str]:
    """The environment of a child: ours without FALSEOK_ variables, plus those given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FALSEOK_")}
    return {**inherited, "PYTHONPATH": SOURCES, **variables}


def run(code: str, *arguments: str, **variables: str) -> str:
    """Run the code to its end and return what it printed; fail with its errors when it does not exit with 0."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env=environment(**variables),
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def start(code: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start the code and return at once; its output can be read line by line."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )
