"""The tour, with stand-ins for its engines; with real ones it is what `make lab` does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.lab.stand_in_cache import make_cache

from falseok_lab.pair import status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_tour_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    """Even while engines that never answer are being asked."""
    cache, data = make_cache(tmp_path / "cache"), tmp_path / "data"
    command = [sys.executable, "-m", "falseok", "lab", "tour", "--cache", str(cache), "--data", str(data)]
    environment = os.environ | {"STAND_IN": "slow"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as tour:
        assert tour.stderr is not None
        for line in tour.stderr:
            if "sending 32 requests" in line:
                break
        tour.send_signal(number)
        assert "Ending the pair tour" in tour.stderr.read()
        assert 0 != tour.wait()
    seen = status("tour", data)
    assert seen is not None
    assert {False} == set(seen.alive.values())
    assert [] == [
        one.pid for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == str(data / "lab" / "tour")
    ]
