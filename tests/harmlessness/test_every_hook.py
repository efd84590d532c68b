"""Every hook of the table, on the functions of every supported release: found, harmless, and gone without a trace."""

import sys
from pathlib import Path

import pytest
from tests.harmlessness import engine_tree
from tests.harmlessness.reports import assert_harmless, plain_environment, report_of
from tests.source_check.signatures import read

SIGNATURES = read()


@pytest.mark.parametrize("version", SIGNATURES.versions)
def test_no_hook_hurts_any_release(version: str, tmp_path: Path) -> None:
    """Loaded twice and imported as vLLM does; results and exceptions pass by identity whatever observers do."""
    tree = engine_tree.make(tmp_path, version, SIGNATURES)
    assert_harmless(report_of(sys.executable, plain_environment(tree)), version)


def test_a_function_that_is_gone_costs_its_hook_and_nothing_else(tmp_path: Path) -> None:
    """The report would say so: what it says of complete releases is no matter of course."""
    tree = engine_tree.make(tmp_path, "0.33.0", SIGNATURES)
    scheduler = tree / "vllm/v1/core/sched/scheduler.py"
    text = scheduler.read_text(encoding="utf-8")
    scheduler.write_text(text.replace("def _free_blocks(", "def _let_blocks_go("), encoding="utf-8")
    report = report_of(sys.executable, plain_environment(tree))
    assert {"core.free": "unavailable"} == {
        name: state for name, state in report["states"].items() if state not in {"active", "absent"}
    }
    assert {"core.free": "no such function"} == report["missing"]
    assert {} == report["hurt"]
