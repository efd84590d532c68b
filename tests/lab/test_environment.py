"""When an engine's environment counts as built, and what stands in the way of building one."""

import json
from pathlib import Path

import pytest
from tests.lab.stand_in_cache import VERSION, VERSIONS, Progress, make_cache

from falseok_lab import environment, models, preflight
from falseok_lab.errors import LabError


def test_a_finished_environment_is_used_as_it_is(tmp_path: Path, progress: Progress) -> None:
    """Nothing is installed again, and nothing is said."""
    engine = environment.build(VERSION, make_cache(tmp_path), progress)
    assert (VERSION, VERSIONS) == (engine.version, engine.versions)
    assert engine.python == environment.engine_home(VERSION, tmp_path) / "bin" / "python"
    assert [] == progress.steps


@pytest.mark.parametrize("damage", ["no marker", "half a marker", "another recipe", "no python"])
def test_a_half_built_environment_is_not_used(
    tmp_path: Path, progress: Progress, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """It is built anew, which the shortage of disk simulated here keeps from going further."""
    home = environment.engine_home(VERSION, make_cache(tmp_path))
    marker = home / environment.MARKER
    match damage:
        case "no marker":
            marker.unlink()
        case "half a marker":
            marker.write_text('{"recipe": 1, "ver')
        case "another recipe":
            marker.write_text(json.dumps(json.loads(marker.read_text()) | {"recipe": 0}))
        case _:
            (home / "bin" / "python").unlink()
    monkeypatch.setattr(environment, "DISK_NEEDED_BYTES", 1 << 60)
    with pytest.raises(LabError, match="GiB of disk"):
        environment.build(VERSION, tmp_path, progress)


def test_what_is_no_version_is_refused_before_anything_is_touched(tmp_path: Path, progress: Progress) -> None:
    """Also what could be a path."""
    for wrong in ("newest", "../0.27.0", ""):
        with pytest.raises(LabError, match="is not a vLLM version"):
            environment.build(wrong, tmp_path / "cache", progress)
    assert not (tmp_path / "cache").exists()


def test_a_finished_model_is_used_and_an_unknown_one_lists_the_known(
    tmp_path: Path, progress: Progress
) -> None:
    """Models are shared by all engines."""
    engine = environment.build(VERSION, make_cache(tmp_path), progress)
    assert tmp_path / "models" / f"tiny-{models.recipe_hash()}" == models.build(
        "tiny", engine, tmp_path, progress
    )
    with pytest.raises(LabError, match="tiny, tiny-uniform, smollm2"):
        models.build("huge", engine, tmp_path, progress)
    assert all(model.memory_needed_bytes >= 2 * preflight.GIB for model in models.MODELS.values())
