"""Every hook of the table, on the real modules of vLLM and NIXL."""

import os

import pytest
from tests.e2e.engines import REPOSITORY, PrintingReporter, cache_directory
from tests.harmlessness.reports import assert_harmless, report_of

from falseok_lab import collector_install
from falseok_lab.environment import build

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("version", ["0.27.0", "0.32.0"])
def test_no_hook_hurts_a_real_engine(version: str) -> None:
    """Loaded by vLLM's own plug-in loader; a real NIXL agent; everything restored."""
    engine = build(version, cache_directory(), PrintingReporter())
    collector_install.install(engine, REPOSITORY, PrintingReporter())
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("FALSEOK_", "PYTHON"))
    }
    environment = inherited | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "UCX_TLS": "tcp,self,sm"}
    assert_harmless(report_of(str(engine.python), environment), version)
