"""Runs the command line in this process, and in one of its own where signals and restarts matter."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner, Result

from falseok.app import app
from falseok_lab.recording import load, shipped
from falseok_pipeline import replay

FALSEOK = (sys.executable, "-m", "falseok")
"""The command as a process of its own."""

MISMATCH_027 = "vllm-0.27.0-dtype-mismatch"
HEALTHY_027 = "vllm-0.27.0-healthy"
MISMATCH_032 = "vllm-0.32.0-dtype-mismatch"


def falseok(*arguments: str | Path) -> Result:
    """The result of one command; an exception that is no error of ours is raised here."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*arguments: str | Path) -> Any:
    """The JSON document a successful command prints, and nothing but that on stdout."""
    result = falseok(*arguments, "--json")
    assert 0 == result.exit_code, result.stderr
    return msgspec.json.decode(result.stdout)


def spooled(directory: Path, recording: str) -> Path:
    """A spool with the events of a shipped recording."""
    replay.write_spool(directory, load(shipped(recording)).lines())
    return directory


def folded(data: Path, recordings: Sequence[str]) -> Path:
    """A data directory with the recordings stored by `falseok run --once`."""
    for recording in recordings:
        spooled(data / "spool", recording)
    assert 0 == falseok("run", "--once", "--data", data).exit_code
    return data


def words(text: str) -> str:
    """The text with every run of white space as one space: wrapping does not matter."""
    return " ".join(text.split())
