"""What a store promises, through both clients: chDB in this process, and a server over HTTP."""

import threading

import pytest
from tests.kafka.filling import contents, recorded_lines
from tests.pipeline.stories import Fleet, healthy

from falseok_alerts.judge import judge
from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.errors import QueryError, RowsRefusedError
from falseok_pipeline.migrations import State


def payload(lines: list[bytes]) -> bytes:
    """Lines as they are inserted."""
    return b"".join(line + b"\n" for line in lines)


def test_the_schema_is_applied_once(either_store: ClientStore) -> None:
    """Again is no change, and every migration is noted."""
    assert [] == either_store.migrate(2)
    assert {State.APPLIED} == {state for _, state in either_store.migrator().status()}


def test_events_are_stored_once_in_any_batches_and_order(either_store: ClientStore) -> None:
    """Twice, the second time shuffled and in other pieces, is the same tables, and the same incident."""
    lines = recorded_lines(2)
    either_store.insert_events(payload(lines))
    once, incidents = contents(either_store), judge(either_store)
    for start in range(0, len(lines), 97):
        either_store.insert_events(payload(lines[::-1][start : start + 97]))
    assert once == contents(either_store)
    assert incidents == judge(either_store)
    assert len(lines) == len(once["events"])
    assert [64] == [incident.affected for incident in incidents]


def test_a_refused_batch_leaves_nothing_behind(either_store: ClientStore) -> None:
    """The error tells rows at fault from a store that is busy, with ClickHouse's code."""
    lines = healthy(Fleet(), 1)
    twice = lines[0].replace(b'"leg"', b'"leg":"x","leg"')
    with pytest.raises(RowsRefusedError) as refused:
        either_store.insert_events(payload([*lines, twice]))
    assert 117 == refused.value.code
    assert [{"n": 0}] == either_store.query("SELECT count() AS n FROM events")


def test_dead_letters_keep_any_bytes(either_store: ClientStore) -> None:
    """NUL bytes, broken UTF-8, quotes and line breaks included; the same letter again is the same row."""
    original = bytes(range(256)) + b"'\\\n\t"
    letter = DeadLetter(Reason.NOT_UTF8, "it's \\ broken\n", "topic[0]@1", 7, original)
    for moment in (1, 2):
        either_store.insert_dead_letters([letter], moment)
    (row,) = either_store.query(
        "SELECT recorded_at, message, source, byte_offset, original_bytes, hex(original) AS digits FROM dead_letters"
    )
    assert {
        "recorded_at": 2,
        "message": letter.message,
        "source": "topic[0]@1",
        "byte_offset": 7,
        "original_bytes": 260,
        "digits": original.hex().upper(),
    } == row


def test_parameters_are_bound_by_the_engine(either_store: ClientStore) -> None:
    """No text of a value is ever part of the statement."""
    value = "x' OR '1'='1"
    assert [{"v": value}] == either_store.query("SELECT {v:String} AS v", {"v": value, "unused": 1})


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE events",
        "INSERT INTO events SELECT 1",
        "SELECT * FROM file('/etc/passwd')",
        "SELECT 1; SELECT 2",
    ],
)
def test_a_query_only_reads(either_store: ClientStore, sql: str) -> None:
    """Whatever it says; the store then still answers."""
    with pytest.raises(QueryError):
        either_store.query(sql)
    assert [{"x": 1}] == either_store.query("SELECT 1 AS x")


def test_a_limit_cannot_be_lifted_by_the_query(either_store: ClientStore) -> None:
    """`readonly` holds for the statement's own settings."""
    with pytest.raises(QueryError):
        either_store.query("SELECT count() FROM numbers(1000000000000) SETTINGS max_execution_time = 0")


def test_a_mistake_in_a_query_is_told_with_its_code(either_store: ClientStore) -> None:
    """And without the engine's noise."""
    with pytest.raises(QueryError) as refused:
        either_store.query("SELECT nothing FROM events")
    assert 47 == refused.value.code
    assert "nothing" in str(refused.value)
    assert "http" not in str(refused.value)


def test_writing_and_asking_do_not_wait_for_each_other(either_store: ClientStore) -> None:
    """A query that takes its time holds up no insert."""
    asked = threading.Thread(target=either_store.query, args=("SELECT sleep(1.5)",))
    asked.start()
    either_store.insert_events(payload(healthy(Fleet(), 1)))
    assert asked.is_alive()
    asked.join()
