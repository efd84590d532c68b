"""The entry point vLLM calls in each of its processes: it never raises and hardly does anything."""

import sys
from pathlib import Path

import pytest
from tests.collector import processes

REPORT = """
import sys, threading
from falseok_collector import plugin
plugin.register()
first = plugin._installation
plugin.register()
finders = [type(finder).__module__ for finder in sys.meta_path]
print(first is not None, first is plugin._installation, threading.active_count(), "wrapt.importer" in finders)
"""


def test_registering_arms_import_hooks_and_starts_nothing(tmp_path: Path) -> None:
    """No thread and no file at load, however often it is called: the process may still fork."""
    assert "True True 1 True\n" == processes.run(REPORT, FALSEOK_SPOOL_DIR=str(tmp_path / "spool"))
    assert [] == list(tmp_path.iterdir())


def test_turned_off_it_leaves_nothing(tmp_path: Path) -> None:
    """FALSEOK_ENABLED=0: no import hook, no thread, no file."""
    printed = processes.run(REPORT, FALSEOK_ENABLED="0", FALSEOK_SPOOL_DIR=str(tmp_path / "spool"))
    assert "False True 1 False\n" == printed
    assert [] == list(tmp_path.iterdir())


def test_it_loads_nothing_of_the_service_and_nothing_of_the_engine() -> None:
    """It lives beside vLLM, where the service's packages are not installed, and must not import vLLM early."""
    code = (
        "import sys; import falseok_collector, falseok_collector.plugin\n"
        "falseok_collector.plugin.register()\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = set(processes.run(code).strip("[]\n").replace("'", "").split(", "))
    service = {
        "chdb",
        "clickhouse_connect",
        "typer",
        "rich",
        "httpx",
        "starlette",
        "uvicorn",
        "tenacity",
        "yaml",
    }
    engine = {"vllm", "torch", "nixl", "fastapi", "transformers"}
    ours = {"falseok_pipeline", "falseok_alerts", "falseok_lab", "falseok"}
    assert {"falseok_collector", "msgspec", "wrapt"} <= loaded
    assert set() == loaded & (service | engine | ours)


@pytest.mark.parametrize(
    "variables",
    [
        {"FALSEOK_SINKS": "nowhere", "FALSEOK_RING_EVENTS": "-1", "FALSEOK_TYPO": "x"},
        {"FALSEOK_CONFIG": "/does/not/exist.toml"},
        {"FALSEOK_CONFIG": "/"},
        {"FALSEOK_SALT_FILE": "/does/not/exist"},
        {"FALSEOK_SPOOL_DIR": "/dev/null/spool"},
        {"FALSEOK_SALT": b"\xff".decode("utf-8", "surrogateescape")},
        {"FALSEOK_ENGINE_GROUP": b"\xff".decode("utf-8", "surrogateescape")},
    ],
    ids=", ".join,
)
def test_wrong_settings_never_raise_into_the_engine(variables: dict[str, str]) -> None:
    """vLLM does not catch what a plug-in function raises: it would end the process."""
    code = "from falseok_collector import plugin; plugin.register(); print(plugin._installation is not None)"
    assert "True\n" == processes.run(code, **variables)


def test_a_collector_that_cannot_be_set_up_stays_off_and_says_so() -> None:
    """A defect of ours is logged, with its traceback, and the engine starts without us."""
    code = (
        "import sys; from falseok_collector import plugin\n"
        "def defective(*_): raise RuntimeError('a defect of ours')\n"
        "plugin.Emitter = defective\n"
        "import logging; logging.basicConfig(stream=sys.stdout)\n"
        "plugin.register(); print(plugin._installation)"
    )
    printed = processes.run(code)
    assert "the collector could not be set up and stays off; serving is not affected" in printed
    assert "RuntimeError: a defect of ours" in printed
    assert printed.endswith("None\n")


def test_problems_with_settings_are_logged(tmp_path: Path) -> None:
    """Each one, where the engine logs."""
    code = (
        "import sys, logging; logging.basicConfig(stream=sys.stdout)\n"
        "from falseok_collector import plugin; plugin.register()"
    )
    printed = processes.run(code, FALSEOK_RING_EVENTS="many", FALSEOK_TYPO="1")
    assert "falseok: FALSEOK_RING_EVENTS='many' is ignored: expected a whole number above 0" in printed
    assert "falseok: FALSEOK_TYPO is not a setting of the collector" in printed


END_TO_END = """
import os, sys
from falseok_collector import plugin
plugin.register()
emitter = plugin._installation._emitter
sys.path.insert(0, sys.argv[1])
child = os.fork()
if child == 0:
    emitter.start()
    emitter.close()
    os._exit(0)
os.waitpid(child, 0)
emitter.start()
"""


def test_processes_forked_after_loading_speak_for_themselves(tmp_path: Path) -> None:
    """Loaded before the fork, started after it: two processes, two boots."""
    processes.run(END_TO_END, str(tmp_path), FALSEOK_SPOOL_DIR=str(tmp_path))
    assert 2 == len({segment.name.partition("-")[0] for segment in tmp_path.iterdir()})


def test_the_entry_point_is_the_one_vllm_looks_for() -> None:
    """`vllm.general_plugins`, under our name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - only here

    (ours,) = [entry for entry in entry_points(group="vllm.general_plugins") if entry.name == "falseok"]
    assert "falseok_collector.plugin:register" == ours.value
    assert sys.modules[ours.load().__module__].__name__ == "falseok_collector.plugin"
