"""Committed offsets on disk."""

from pathlib import Path

import pytest

from falseok_pipeline.errors import PipelineError
from falseok_pipeline.sources.offsets import Offsets


def test_offsets_outlive_the_process(tmp_path: Path) -> None:
    """What was committed is known to the next process; the rest starts at nought."""
    path = tmp_path / "offsets.json"
    Offsets(path).commit({"/spool/a-00000001.ndjson": 7})
    Offsets(path).commit({"/spool/b-00000001.ndjson": 9})
    again = Offsets(path)
    assert (7, 9, 0) == tuple(again.of(f"/spool/{boot}-00000001.ndjson") for boot in "abc")


def test_segments_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    """The file does not grow with every segment there ever was."""
    path = tmp_path / "offsets.json"
    offsets = Offsets(path)
    offsets.commit({"a": 1, "b": 2})
    offsets.forget(["a", "never seen"])
    assert frozenset({"b"}) == offsets.known() == Offsets(path).known()


@pytest.mark.parametrize("content", ["", "{", '{"version":1}', '{"version":1,"segments":{"a":"x"}}'])
def test_offsets_that_cannot_be_understood_are_no_guess(tmp_path: Path, content: str) -> None:
    """Guessing nought or the end would be wrong either way: the message says what is safe to do."""
    path = tmp_path / "offsets.json"
    path.write_text(content)
    with pytest.raises(PipelineError, match="Delete it to read all spools again"):
        Offsets(path)
