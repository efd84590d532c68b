"""ClickHouse's own Kafka engine instead of our consumer.

The engine itself cannot be made inside chDB 26.5 to 26.9 ("Shutdown was called", against Apache Kafka 4.3.1), so its one
table is text that the parser takes and a golden file keeps; all that it feeds runs for real on messages put in its place.
"""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from tests.kafka.filling import contents, recorded_lines
from tests.pipeline.hostile import good_line, hostile_lines
from tests.pipeline.test_schema_variants import SHARDED, parsed
from tests.pipeline.test_store_contract import payload

from falseok_alerts.judge import judge
from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.errors import MigrationError
from falseok_pipeline.kafka_engine import DROPPED, KafkaEngine, drop_statements
from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant
from falseok_pipeline.sources import Batch, Slice
from falseok_pipeline.validation import validate

ENGINE = KafkaEngine(
    ["kafka-1:9092", "kafka-2:9092"], ["falseok.events.v1", "falseok.engines.v1"], "falseok.clickhouse", 4
)
GOLDEN = Path(__file__).parent / "golden" / "kafka_engine.sql"
TOPIC = "falseok.events.v1"


def in_place_of_kafka(store: ClientStore) -> None:
    """All but the engine: messages are put into a table with the engine's columns."""
    for statement in ENGINE.statements(EMBEDDED):
        if "ENGINE = Kafka" in statement:
            statement = (  # noqa: PLW2901 - it stands in for that one
                "CREATE TABLE kafka_messages (message String, _topic String, _partition UInt64, _offset UInt64, "
                "_error String, _raw_message String) ENGINE = Null"
            )
        store.command(statement)


def send(store: ClientStore, values: Iterable[bytes], error: str = "") -> None:
    """Messages as the engine would give them out."""
    store.insert_rows(
        "kafka_messages",
        [
            {
                "message": b"" if error else value,
                "_topic": TOPIC,
                "_partition": 3,
                "_offset": offset,
                "_error": error,
                "_raw_message": value if error else b"",
            }
            for offset, value in enumerate(values)
        ],
    )


def everything(store: ClientStore) -> dict[str, list[str]]:
    """Every column of every event, the types of attributes included, and every row of the views."""
    rows = store.query("SELECT *, JSONAllPathsWithTypes(attrs) AS types FROM events FINAL ORDER BY id")
    return contents(store) | {"whole": [repr(row) for row in rows]}


def messages(lines: Sequence[bytes], size: int) -> list[bytes]:
    """So many lines to a message."""
    return [payload(list(lines[start : start + size])) for start in range(0, len(lines), size)]


def test_the_statements_are_those_of_the_golden_file() -> None:
    """What an administrator reviewed is what the next release runs, unless this file says otherwise."""
    assert GOLDEN.read_text(encoding="utf-8") == "".join(f"{s};\n\n" for s in ENGINE.statements(SHARDED))


@pytest.mark.parametrize("variant", [EMBEDDED, SHARDED], ids=["server", "sharded"])
def test_every_statement_is_sql(variant: SchemaVariant) -> None:
    """In the engine's own grammar, on every node of a cluster; nothing is made that is not dropped again."""
    made = [parsed(statement) for statement in ENGINE.statements(variant)]
    dropped = [parsed(statement) for statement in drop_statements(variant)]
    assert len(DROPPED) == len(made) == len(dropped)
    assert {text.split("EXISTS ")[1].split()[0] for text in made} == set(DROPPED)
    assert bool(variant.cluster) == all("ON CLUSTER main" in text for text in [*made, *dropped])
    (engine,) = [text for text in made if "ENGINE = Kafka" in text]
    assert "kafka_broker_list = 'kafka-1:9092,kafka-2:9092'" in engine
    assert "kafka_handle_error_mode = 'stream'" in engine


def test_the_tables_are_those_of_our_own_consumer(store: ClientStore) -> None:
    """The same recorded events, line by line through SQL and at once through the writer: every row and the incident."""
    lines = recorded_lines(2)
    in_place_of_kafka(store)
    send(store, messages(lines, 40))
    fed, incidents = everything(store), judge(store)
    assert len(lines) == len(fed["events"])
    assert [64] == [incident.affected for incident in incidents]
    for table in store.query(
        "SELECT name FROM system.tables WHERE engine LIKE '%MergeTree' AND database = currentDatabase()"
    ):
        if table["name"] != "schema_migrations":
            store.command(f"TRUNCATE TABLE {table['name']}")
    assert [] == everything(store)["events"]
    store.insert_events(payload(lines))
    assert fed == everything(store)


def test_what_the_lenient_parser_would_swallow_is_a_dead_letter(store: ClientStore) -> None:
    """Among hostile lines of every kind every good one is stored, every bad one kept with reason, place and bytes."""
    dice = random.Random(7)
    bad = hostile_lines(dice, 960)
    good = [good_line("fuzz", at) for at in range(500)]
    mixed = [*bad, *good]
    dice.shuffle(mixed)
    in_place_of_kafka(store)
    sent = messages(mixed, 5)
    send(store, sent)
    (events,) = store.query("SELECT uniqExact(id) AS n, groupUniqArray(boot) AS boots FROM events")
    assert {"n": 500, "boots": ["fuzz"]} == events
    rows = store.query(
        "SELECT reason, message, id, source, byte_offset, hex(original) AS digits FROM dead_letters"
    )
    assert sorted(bad) == sorted(bytes.fromhex(row["digits"]) for row in rows)
    assert all(row["reason"] and row["message"] for row in rows)
    places = {(row["source"], row["byte_offset"]): bytes.fromhex(row["digits"]) for row in rows}
    for (source, byte_offset), original in places.items():
        message = sent[int(source.removeprefix(f"{TOPIC}[3]@"))]
        assert message[byte_offset:].startswith(original + b"\n")
    ours = validate(
        Batch(tuple(Slice(f"{TOPIC}[3]@{offset}", 0, value) for offset, value in enumerate(sent)))
    )
    same = {letter.id for letter in ours.dead_letters} & {row["id"] for row in rows}
    assert len(same) > len(bad) / 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"seq":7', b'"seq":9223372036854775808', "schema"),
        (b'"seq":7', b'"seq":7,"seq":7', "schema"),
        (b'"seq":7', b'"seq":7,"later":1', "schema"),
        (b'"attrs":{', b'"rank":2147483648,"attrs":{', "schema"),
        (b'"attrs":{', b'"trace_id":"ABC","attrs":{', "schema"),
        (b'"output_tokens":1', b'"output_tokens":1,"output_tokens":2', "refused_by_store"),
    ],
)
def test_each_rule_of_the_contract_refuses(store: ClientStore, old: bytes, new: bytes, reason: str) -> None:
    """One change to a good event, each of which the JSON parser alone would have stored or stopped at."""
    line = good_line("one", 7)
    assert old in line
    in_place_of_kafka(store)
    send(store, [line.replace(old, new), line])
    assert [{"reason": reason}] == store.query("SELECT reason FROM dead_letters")
    assert [{"n": 1}] == store.query("SELECT count() AS n FROM events")


def test_absent_fields_have_the_contracts_defaults(store: ClientStore) -> None:
    """Rank 0 is a worker; no rank is -1."""
    in_place_of_kafka(store)
    ranked = good_line("ranked", 2).replace(b'"attrs":', b'"rank":0,"attrs":')
    send(store, [good_line("bare", 1), ranked, good_line("bare", 3).split(b',"attrs"')[0] + b"}"])
    rows = store.query("SELECT id, rank, toString(attrs) AS attrs FROM events ORDER BY id")
    assert [("bare-1", -1), ("bare-3", -1), ("ranked-2", 0)] == [(row["id"], row["rank"]) for row in rows]
    assert "{}" == rows[1]["attrs"]


def test_a_message_that_the_engine_could_not_take_and_an_empty_one_are_kept(store: ClientStore) -> None:
    """`kafka_handle_error_mode = 'stream'`: the bytes come with the error."""
    in_place_of_kafka(store)
    send(store, [b"what it was"], error="cannot be read")
    send(store, [b"", b"\n \n"])
    rows = store.query("SELECT reason, message, original FROM dead_letters ORDER BY reason")
    assert [
        {"reason": "not_json", "message": "the message is empty", "original": ""},
        {"reason": "unreadable", "message": "cannot be read", "original": "what it was"},
    ] == rows


def test_names_are_literals() -> None:
    """Nothing of a name gets out of its quotes, and a list cannot be smuggled in."""
    made = KafkaEngine(["b'; DROP:9092"], ["t\\"], "g").statements(EMBEDDED)
    (engine,) = [parsed(text) for text in made if "ENGINE = Kafka" in text]
    assert "kafka_broker_list = 'b\\'; DROP:9092'" in engine
    for wrong in (
        ([], ["t"], "g", 1),
        (["b"], ["t,u"], "g", 1),
        (["b"], ["t"], "", 1),
        (["b"], ["t"], "g", 65),
    ):
        with pytest.raises(MigrationError):
            KafkaEngine(*wrong)
