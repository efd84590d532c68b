"""Storing batches: around what the store refuses, and through the times when it takes nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.pipeline.stories import Fleet, healthy

from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import StoreUnavailableError
from falseok_pipeline.sources import Batch, Slice
from falseok_pipeline.validation import validate
from falseok_pipeline.writer import EventSink, Interrupted, Writer

SOURCE = "/spool/p-00000001.ndjson"


class Recovering:
    """A store that cannot take anything for a number of inserts, and then is the real one."""

    def __init__(self, store: EmbeddedStore, refusals: int) -> None:
        self._store = store
        self._refusals = refusals

    def insert_events(self, lines: bytes) -> None:
        """As the real store, once it recovered."""
        self._maybe_refuse()
        self._store.insert_events(lines)

    def insert_dead_letters(self, letters: Sequence[DeadLetter], now_micros: int) -> None:
        """As the real store, once it recovered."""
        self._maybe_refuse()
        self._store.insert_dead_letters(letters, now_micros)

    def _maybe_refuse(self) -> None:
        if self._refusals:
            self._refusals -= 1
            raise StoreUnavailableError("the disk is full")


class Waiting:
    """Takes the place of sleeping, and of the one who is told why."""

    def __init__(self, stop_after: int = 1_000) -> None:
        self.seconds: list[float] = []
        self.reasons: list[str] = []
        self._stop_after = stop_after

    def sleep(self, seconds: float) -> bool:
        """True when it is time to stop."""
        self.seconds.append(seconds)
        return len(self.seconds) >= self._stop_after

    def tell(self, reason: str) -> None:
        """Why the store makes us wait."""
        self.reasons.append(reason)


def writer(store: EventSink, waiting: Waiting) -> Writer:
    """A writer whose clock stands at 5."""
    return Writer(store, lambda: 5, waiting.sleep, waiting.tell, longest_wait_seconds=1.0)


def batch(lines: Sequence[bytes]) -> Batch:
    """One slice of lines that begins at offset 100."""
    return Batch((Slice(SOURCE, 100, b"".join(line + b"\n" for line in lines)),))


def stored(store: EmbeddedStore) -> int:
    """Events in the store."""
    return int(store.query("SELECT count() AS n FROM events FINAL")[0]["n"])


def refused_by_the_store(line: bytes) -> bytes:
    """A line that is valid JSON of the right shape, and that ClickHouse does not take: a key twice in `attrs`."""
    return line.replace(b'"attrs":{', b'"attrs":{"twice":1,"twice":2,')


@pytest.mark.parametrize("positions", [[0], [3], [2, 3], [0, 4, 9], list(range(10))])
def test_only_the_lines_the_store_refuses_are_buried(store: EmbeddedStore, positions: list[int]) -> None:
    """The batch is halved until they are found; all others are stored."""
    good = healthy(Fleet(), 1)[:10]
    lines = [refused_by_the_store(line) if at in positions else line for at, line in enumerate(good)]
    offsets = [100 + sum(len(line) + 1 for line in lines[:at]) for at in positions]
    waiting = Waiting()
    result = writer(store, waiting).write(validate(batch(lines)))
    assert (10 - len(positions), len(positions)) == result
    assert 10 - len(positions) == stored(store)
    rows = store.query(
        "SELECT reason, source, byte_offset, original, message FROM dead_letters ORDER BY byte_offset"
    )
    assert [
        ("refused_by_store", SOURCE, offset, lines[at].decode())
        for at, offset in zip(positions, offsets, strict=True)
    ] == [(row["reason"], row["source"], row["byte_offset"], row["original"]) for row in rows]
    assert all("ClickHouse error 117" in row["message"] for row in rows)
    assert [] == waiting.seconds


def test_dead_letters_of_source_and_validation_are_stored_with_the_batch(store: EmbeddedStore) -> None:
    """What could not become an event lies beside what could."""
    torn = DeadLetter(Reason.TORN_LINE, "why", SOURCE, 0, b"torn")
    found = validate(Batch(batch([b"nonsense", healthy(Fleet(), 1)[0]]).slices, (torn,)))
    assert (1, 2) == writer(store, Waiting()).write(found)
    rows = store.query("SELECT reason, recorded_at FROM dead_letters ORDER BY reason")
    assert [{"reason": "not_json", "recorded_at": 5}, {"reason": "torn_line", "recorded_at": 5}] == rows


def test_a_store_that_cannot_take_anything_is_waited_for(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is skipped and nothing buried; waits grow to their bound; the reason is told once in the log."""
    lines = [*healthy(Fleet(), 1), b"nonsense"]
    waiting = Waiting()
    result = writer(Recovering(store, refusals=6), waiting).write(validate(batch(lines)))
    assert (len(lines) - 1, 1) == result
    assert len(lines) - 1 == stored(store)
    assert sorted(waiting.seconds) == waiting.seconds
    assert (6, 1.0) == (len(waiting.seconds), waiting.seconds[-1])
    assert ["the disk is full"] * 6 + [""] * 2 == waiting.reasons
    assert 1 == caplog.text.count("store_unavailable")


def test_waiting_ends_when_it_is_time_to_stop(store: EmbeddedStore) -> None:
    """The batch stays unstored and uncommitted; the next start finds it again."""
    waiting = Waiting(stop_after=3)
    with pytest.raises(Interrupted):
        writer(Recovering(store, refusals=100), waiting).write(validate(batch(healthy(Fleet(), 1))))
    assert 3 == len(waiting.seconds)
    assert 0 == stored(store)


def test_a_full_temporary_folder_means_later(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine takes batches by way of a temporary file; where that has no room, the batch waits."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(StoreUnavailableError, match="No such file"):
        store.insert_events(healthy(Fleet(), 1)[0] + b"\n")
