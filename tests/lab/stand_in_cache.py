"""An engine cache as the lab leaves it, whose Python runs the stand-in, so that whole pairs start in a second."""

import json
import sys
from pathlib import Path

from falseok_lab import collector_source, environment, models

VERSION = "0.27.0"
REPOSITORY = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).with_name("stand_in_engine.py")
VERSIONS = {"vllm": VERSION, "torch": "2.13.0", "nixl": "1.5.1", "transformers": "5.0.0", "python": "3.11.0"}


class Progress:
    """A reporter that keeps what it hears."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.details: list[str] = []

    def step(self, text: str) -> None:
        """Keep the step."""
        self.steps.append(text)

    def detail(self, text: str) -> None:
        """Keep the detail."""
        self.details.append(text)


def make_cache(cache: Path) -> Path:
    """Make a cache in which vLLM 0.27.0, the collector and the model `tiny` count as built."""
    home = environment.engine_home(VERSION, cache)
    python = home / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {STAND_IN} "$@"\n')
    python.chmod(0o755)
    marker = {"recipe": environment.RECIPE, "version": VERSION, "versions": VERSIONS}
    (home / environment.MARKER).write_text(json.dumps(marker))
    (home / "falseok-collector").write_text(collector_source.fingerprint(REPOSITORY))
    (cache / "models" / f"tiny-{models.recipe_hash()}").mkdir(parents=True)
    return cache
