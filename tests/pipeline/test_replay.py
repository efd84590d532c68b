"""Playing recorded events again."""

import gzip
import lzma
from pathlib import Path

import pytest
from tests.pipeline.stories import Fleet, corrupt, healthy

from falseok_collector.events import decode
from falseok_pipeline import replay
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import PipelineError
from falseok_pipeline.sources.segments import list_directory


def test_lines_are_read_from_every_kind_of_file(tmp_path: Path) -> None:
    """Plain, compressed either way, and whole directories of segments."""
    (tmp_path / "a-00000001.ndjson").write_bytes(b"one\n\ntwo\n")
    (tmp_path / "a-00000002.ndjson.gz").write_bytes(gzip.compress(b"three\n"))
    (tmp_path / "a-00000003.ndjson.xz").write_bytes(lzma.compress(b"four"))
    (tmp_path / "manifest.json").write_bytes(b"{}")
    assert [b"one", b"two", b"three", b"four"] == list(replay.read_lines(tmp_path))


@pytest.mark.parametrize("name", ["nothing.ndjson", "cut.ndjson.xz", "wrong.ndjson.gz"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    """Missing, cut off or of another kind: the message names it."""
    (tmp_path / "cut.ndjson.xz").write_bytes(lzma.compress(b"four" * 1_000)[:40])
    (tmp_path / "wrong.ndjson.gz").write_bytes(b"not compressed")
    with pytest.raises(PipelineError, match=name):
        list(replay.read_lines(tmp_path / name))


def test_copies_are_requests_of_their_own_between_the_same_engines(store: EmbeddedStore) -> None:
    """Each copy gives the same rows again under other ids: every reference between events was rewritten with them."""
    fleet = Fleet()
    lines = [*fleet.configs(), *healthy(fleet, 1), *corrupt(fleet, 2)]
    copies = list(replay.multiply(lines, 3, shift_micros=1_000_000))
    assert lines == copies[: len(lines)]
    assert 3 * len(lines) == len({decode(line).id for line in copies})
    store.insert_events(b"".join(line + b"\n" for line in copies))
    rows = store.query(
        "SELECT verdict, count() AS n, uniqExact(external_id) AS ids FROM request_verdicts GROUP BY verdict ORDER BY verdict"
    )
    assert [{"verdict": "corrupt", "n": 3, "ids": 3}, {"verdict": "healthy", "n": 3, "ids": 3}] == rows
    assert [{"n": 2}] == store.query("SELECT count() AS n FROM engines")
    assert [{"n": 6}] == store.query("SELECT count() AS n FROM transfers WHERE length(consumers) = 1")
    assert [{"n": 2_000_000}] == store.query(
        "SELECT max(first_seen) - min(first_seen) AS n FROM request_verdicts WHERE verdict = 'healthy'"
    )


def test_a_spool_is_laid_out_as_segments(tmp_path: Path) -> None:
    """Of a bounded size, in order, complete, and apart from those of another call."""
    lines = healthy(Fleet(), 1)
    written = replay.write_spool(tmp_path, lines, segment_bytes=2_000)
    assert len(written) > 2
    assert lines == [line for path in written for line in path.read_bytes().splitlines()]
    replay.write_spool(tmp_path, lines)
    listing = list_directory(tmp_path)
    assert (len(written) + 1, ()) == (len(listing.sizes), listing.strangers)
