"""Engines fork and spawn their processes; hooks go with them, and every process speaks for itself."""

import os
import signal
from pathlib import Path

import pytest
from tests.collector import processes
from tests.harmlessness import engine
from tests.harmlessness.reports import plain_environment

from falseok_collector.events import decode

CHILD = """
import multiprocessing

def child():
    start()
    assert [serve(number) for number in range(5)] == [(False, None)] * 5
    states = {state.name: (state.state, state.errors) for state in made.states() if state.calls}
    assert set(states.values()) == {("active", 0)}, states

if __name__ == "__main__":
    start()
    serve(0)
    process = multiprocessing.get_context(sys.argv[1]).Process(target=child)
    process.start()
    serve(1)
    process.join()
    sys.exit(process.exitcode)
"""
"""As a script, so that a spawned child imports it, loads the plug-in and wraps what it imports, all by itself."""


def requests_by_boot(spool: Path) -> list[list[str]]:
    """Requests that each process told the end of, fewest first."""
    found: dict[str, list[str]] = {}
    for segment in sorted(spool.iterdir()):
        for line in segment.read_bytes().splitlines():
            event = decode(line)
            if event.name == "sched.finish":
                found.setdefault(event.boot, []).append(event.request_id)
    return sorted(found.values(), key=len)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_hooks_work_in_a_child_and_in_its_parent(tmp_path: Path, method: str) -> None:
    """Nothing is told twice, nothing is lost, and the child ends well."""
    script = tmp_path / "serve.py"
    script.write_text(engine.PREPARE + CHILD, encoding="utf-8")
    path = plain_environment(engine.tree(tmp_path / "engine"))["PYTHONPATH"]
    spool = tmp_path / "spool"
    processes.run(
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
        str(script),
        method,
        PYTHONPATH=path,
        FALSEOK_SPOOL_DIR=str(spool),
    )
    parent, child = requests_by_boot(spool)
    assert [f"cmpl-{number}-0-0123abcd" for number in range(2)] == parent
    assert [f"cmpl-{number}-0-0123abcd" for number in range(5)] == child


ENDED = """
import signal
class Ended(SystemExit):
    pass

def end(*_):
    raise Ended(7)

signal.signal(signal.SIGTERM, end)
start()
number = 0
try:
    while True:
        number += 1
        serve(number)
        if number == 1:
            print("serving", flush=True)
except Ended as error:
    code = error.code
print(number, flush=True)
sys.exit(code)
"""


def test_an_engine_that_is_told_to_end_ends(tmp_path: Path) -> None:
    """vLLM's signal handlers raise wherever the process happens to be, mostly inside our hooks here: it passes."""
    path = plain_environment(engine.tree(tmp_path / "engine"))["PYTHONPATH"]
    process = processes.start(
        engine.PREPARE + ENDED,
        PYTHONPATH=path,
        FALSEOK_SPOOL_DIR=str(tmp_path / "spool"),
        FALSEOK_RING_EVENTS="1000",
    )
    with process:
        assert process.stdout is not None
        assert "serving\n" == process.stdout.readline()
        os.kill(process.pid, signal.SIGTERM)
        assert int(process.stdout.readline()) > 0
        assert 7 == process.wait(timeout=20)
    lines = [
        line
        for segment in sorted((tmp_path / "spool").iterdir())
        for line in segment.read_bytes().splitlines()
    ]
    assert "engine.exit" in {decode(line).name for line in lines}
