"""The store in this process: what it takes, what it refuses, what a query may not do."""

import pytest
from tests.pipeline.stories import Fleet, healthy

from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.embedded import EmbeddedStore, open_store
from falseok_pipeline.errors import (
    DataDirectoryInUseError,
    QueryError,
    RowsRefusedError,
    StoreUnavailableError,
)


def count(store: EmbeddedStore, what: str = "events FINAL") -> int:
    """Rows of a table or view."""
    return int(store.query(f"SELECT count() AS n FROM {what}")[0]["n"])


def payload(lines: list[bytes]) -> bytes:
    """Lines as they are inserted."""
    return b"".join(line + b"\n" for line in lines)


def test_an_event_stored_again_is_one_event(store: EmbeddedStore) -> None:
    """Delivery is at least once; the store keeps each event once."""
    lines = healthy(Fleet(), 1)
    store.insert_events(payload(lines))
    store.insert_events(payload(lines))
    assert len(lines) == count(store)


def test_text_that_looks_like_a_date_stays_text(store: EmbeddedStore) -> None:
    """An error message that is a date must not become a moment in time."""
    line = (
        b'{"v":1,"id":"b-1","ts":1,"mono":1,"boot":"b","seq":1,"name":"kv.handshake","origin":"hook",'
        b'"engine_id":"e","attrs":{"exception_message":"2026-01-02 03:04:05"}}'
    )
    store.insert_events(payload([line]))
    assert [{"exception_message": "2026-01-02 03:04:05"}] == store.query(
        "SELECT exception_message FROM handshakes"
    )


def test_a_refused_batch_leaves_nothing_behind(store: EmbeddedStore) -> None:
    """One line the store refuses keeps the whole insert out, so that it can be cut in halves."""
    lines = healthy(Fleet(), 1)
    twice = lines[0].replace(b'"leg"', b'"leg":"x","leg"')
    with pytest.raises(RowsRefusedError) as refused:
        store.insert_events(payload([*lines, twice]))
    assert 117 == refused.value.code
    assert 0 == count(store)


def test_too_many_parts_means_later(store: EmbeddedStore) -> None:
    """A store that is busy merging asks for patience; its answer must not look like bad rows."""
    store.command("SYSTEM STOP MERGES events")
    store.command("ALTER TABLE events MODIFY SETTING parts_to_throw_insert = 1, parts_to_delay_insert = 1")
    lines = healthy(Fleet(), 1)
    store.insert_events(payload(lines[:1]))
    with pytest.raises(StoreUnavailableError, match="parts"):
        store.insert_events(payload(lines[1:]))
    store.command("ALTER TABLE events RESET SETTING parts_to_throw_insert, parts_to_delay_insert")
    store.insert_events(payload(lines[1:]))
    assert len(lines) == count(store)


def test_a_dead_letter_keeps_its_bytes_and_is_one_row(store: EmbeddedStore) -> None:
    """The same refusal met again after a restart is the same row, with its bytes as they were."""
    letter = DeadLetter(Reason.NOT_UTF8, "why", "/spool/a-00000001.ndjson", 7, b"\xff\x00 raw")
    other = DeadLetter(Reason.NOT_UTF8, "why", "/spool/a-00000001.ndjson", 9, b"\xff\x00 raw")
    store.insert_dead_letters([letter], 1)
    store.insert_dead_letters([letter, other], 2)
    rows = store.query(
        "SELECT reason, byte_offset, original_base64, original_bytes FROM dead_letters ORDER BY byte_offset"
    )
    expected = {"reason": "not_utf8", "original_base64": "/wAgcmF3", "original_bytes": 6}
    assert [expected | {"byte_offset": 7}, expected | {"byte_offset": 9}] == rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; DROP TABLE events",
        "SELECT * FROM numbers(2000000)",
        "SELECT 1 SETTINGS max_result_rows = 5000000",
        "SELECT * FROM remote('127.0.0.1', system.one)",
        "SELECT * FROM mysql('a', 'b', 'c', 'd', 'e')",
        "SELECT nothing_of_that_name",
    ],
)
def test_a_query_cannot_leave_its_limits(store: EmbeddedStore, sql: str) -> None:
    """The engine refuses what would write, read elsewhere or answer without bounds."""
    with pytest.raises(QueryError) as refused:
        store.query(sql)
    assert refused.value.code is not None
    assert 0 == count(store)


def test_parameters_are_bound_by_the_engine(store: EmbeddedStore) -> None:
    """A value never becomes part of the statement, whatever it holds; names without use are let be."""
    nasty = "x' OR 1=1 -- \\ \t\n{b:String}"
    rows = store.query(
        "SELECT {a:String} AS a, {b:Array(String)} AS b", {"a": nasty, "b": ["1", "it's"], "unused": 1}
    )
    assert [{"a": nasty, "b": ["1", "it's"]}] == rows


def test_rows_can_be_written_to_a_table_of_ones_own(store: EmbeddedStore) -> None:
    """Other components keep their tables in the same store."""
    store.command("CREATE TABLE notes (id String, n Int64) ENGINE = MergeTree ORDER BY id")
    store.insert_rows("notes", [{"id": "a", "n": 1}, {"id": "b", "n": 2}])
    store.insert_rows("notes", [])
    assert [{"n": 3}] == store.query("SELECT sum(n) AS n FROM notes")


def test_the_data_directory_is_held_while_the_store_is_open(data: DataDirectory) -> None:
    """Nobody else opens it meanwhile, and everybody can afterwards."""
    with open_store(data, 1), pytest.raises(DataDirectoryInUseError):
        open_store(data, 2)
    assert data.running() is None
    with open_store(data, 3) as again:
        assert 0 == count(again)
