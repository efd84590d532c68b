"""The report of `inside.py`, and what it must say of any release."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.collector import processes

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.installation import Installation
from falseok_collector.settings import Settings

SCRIPT = Path(__file__).with_name("inside.py")


def table() -> tuple[Hook, ...]:
    """Every hook of this release."""
    return Installation(Emitter(Settings(sinks=("memory",)))).hooks


def report_of(python: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run the script with a Python and read what it says; fails with its errors when it does not end well."""
    done = subprocess.run(
        [python, str(SCRIPT)],
        env=environment | {"FALSEOK_SINKS": "memory"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert 0 == done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def plain_environment(path: Path) -> dict[str, str]:
    """No settings inherited; the collector and what lies below `path` can be imported."""
    environment = processes.environment()
    return environment | {"PYTHONPATH": f"{path}:{environment['PYTHONPATH']}"}


def assert_harmless(report: dict[str, Any], version: str) -> None:
    """Every hook of the table is there in this release or said to be absent, and none does any harm."""
    hooks = table()
    expected = {hook.name: "active" if hook.versions.includes(version) else "absent" for hook in hooks}
    observing = {
        hook.name
        for hook in hooks
        if expected[hook.name] == "active" and (hook.before or hook.after or hook.failed or hook.around)
    }
    assert expected == report["states"], report["missing"]
    assert [] == report["wrapped twice"]
    assert [] == report["wrapped anew"]
    assert [] == report["not restored"]
    assert {} == report["hurt"]
    assert sorted(observing) == report["observers raised"]
    assert report["hash_factors is the engine's"]
    agent = report["agent"]
    assert {"active"} == set(agent["states"].values())
    assert [True] * 8 == (agent["results, observers raise: False"] + agent["results, observers raise: True"])
    assert [] == agent["left behind"]
    assert [] == report["loaded"]
    connectors = {name: found for name, found in report["connectors"].items() if found is not None}
    assert {"MultiConnector", "ExampleConnector", "OffloadingConnector"} <= set(connectors)
    for name, found in connectors.items():
        assert {"active"} == set(found["states"].values()), name
        assert ([], []) == (found["hurt"], found["left behind"]), name
