"""Puts the collector into an engine's environment, as a user would: one `pip install` beside vLLM.

It is installed again only when it has changed.
"""

import tempfile
from importlib.metadata import Distribution
from pathlib import Path

from falseok_lab import collector_source, locking
from falseok_lab.environment import Engine
from falseok_lab.installer import run, uv_command
from falseok_lab.report import Reporter

MARKER = "falseok-collector"


def install(engine: Engine, checkout: Path | None, reporter: Reporter) -> str:
    """Install the collector of a checkout, or of the running FalseOK when None. Returns its fingerprint.

    An engine that is running keeps the one it has loaded.

    Raises:
        LabError: it cannot be built or installed.
    """
    source = checkout or _source_of_this_installation()
    wanted = collector_source.fingerprint(source)
    marker = engine.home / MARKER
    with locking.held(engine.home / f".{MARKER}.lock", "the collector", reporter):
        if marker.exists() and marker.read_text() == wanted:
            return wanted
        reporter.step(f"Installing the collector into the environment of vLLM {engine.version}")
        marker.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            wheel = collector_source.wheel(source, Path(folder), reporter)
            arguments = ["--reinstall-package", collector_source.DISTRIBUTION, str(wheel)]
            command = uv_command("pip", "install", "--python", str(engine.python), *arguments)
            run(command, "installing the collector", reporter)
        marker.write_text(wanted)
    return wanted


def _source_of_this_installation() -> Path | Distribution:
    installed = collector_source.running_distribution()
    return collector_source.checkout_of(installed) or installed
