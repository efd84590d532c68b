"""The two output channels: results on stdout, progress and complaints on stderr. No markup is ever interpreted."""

import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console


def results() -> Console:
    """Console of stdout: what was asked for. Markup, emoji codes and automatic highlighting are off."""
    return Console(markup=False, emoji=False, highlight=False)


def progress() -> Console:
    """Console of stderr: progress, status lines, errors."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False)


def write_json(value: object) -> None:
    """One JSON document on stdout, indented, with a line break at its end. Paths become text."""
    encoded = msgspec.json.encode(value, enc_hook=_path_as_text)
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def _path_as_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value)} has no place in our JSON")
