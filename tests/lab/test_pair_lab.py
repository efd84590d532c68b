"""A real pair of engines, up, driven and down: the smoke test of the lab itself."""

import os
from pathlib import Path

import psutil
import pytest
from tests.lab.stand_in_cache import REPOSITORY, Progress

from falseok_lab.answers import counts
from falseok_lab.drive import DriveSettings, agreement, drive, drive_direct
from falseok_lab.pair import PairSettings, down, up

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

CACHE = Path(os.environ.get("FALSEOK_LAB_CACHE") or REPOSITORY / ".lab-cache")


def test_a_real_pair_transfers_soundly_and_leaves_no_process(tmp_path: Path, progress: Progress) -> None:
    """vLLM 0.27.0, alike on both sides: answers over a transferred KV cache are those of decode alone."""
    settings = PairSettings(name="smoke", data=tmp_path, cache=CACHE, collector_source=REPOSITORY)
    state = up(settings, progress)
    try:
        answers = drive(state, DriveSettings(requests=4))
        direct = drive_direct(state, DriveSettings(requests=4))
    finally:
        ended = down("smoke", tmp_path, progress)
    assert {"200": 4} == counts(answers)
    assert {answer.external_id: True for answer in answers} == agreement(answers, direct)
    assert 7 <= ended
    assert [] == [one.pid for one in psutil.process_iter() if cwd_of(one) == state.folder]


def cwd_of(process: psutil.Process) -> str:
    """Working directory of a process, empty when it may not be known."""
    try:
        return process.cwd()
    except psutil.Error:
        return ""
