"""Replicas and shards, as text that the engine parses: no cluster can be had where the tests run."""

import chdb
import pytest

from falseok_pipeline import schema_users
from falseok_pipeline.errors import MigrationError
from falseok_pipeline.migrations import shipped
from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant

REPLICATED = SchemaVariant(cluster="main", replicated=True, database="falseok")
SHARDED = SchemaVariant(cluster="main", replicated=True, sharded=True, database="falseok", codec="ZSTD(3)")


def statements(variant: SchemaVariant) -> list[str]:
    """All of this release's SQL."""
    return [each for m in shipped() for statement in m.statements() for each in variant.statements(statement)]


def parsed(statement: str) -> str:
    """The statement as the engine's own parser writes it on one line; fails for what is no SQL."""
    literal = statement.replace("\\", "\\\\").replace("'", "\\'")
    connection = chdb.connect(":memory:")
    answer = str(connection.query(f"SELECT formatQuerySingleLine('{literal}')", "TSVRaw"))
    connection.close()
    return answer.strip()


def test_the_embedded_store_gets_the_files_as_they_are() -> None:
    """Not a byte is changed."""
    assert [statement for m in shipped() for statement in m.statements()] == statements(EMBEDDED)


@pytest.mark.parametrize("variant", [REPLICATED, SHARDED], ids=["replicated", "sharded"])
def test_every_statement_is_for_the_whole_cluster_and_is_sql(variant: SchemaVariant) -> None:
    """On every node, in the engine's own grammar."""
    for statement in statements(variant):
        text = parsed(statement)
        assert "ON CLUSTER main" in text
        assert text.startswith(
            ("CREATE TABLE IF NOT EXISTS", "CREATE MATERIALIZED VIEW IF NOT EXISTS", "CREATE OR REPLACE VIEW")
        )


def test_replicas_keep_every_engine_and_its_arguments() -> None:
    """Each table is replicated by the engine that merges it."""
    engines = [
        parsed(s).split(" ENGINE = ")[1].split(" ORDER")[0] for s in statements(REPLICATED) if "\nENGINE" in s
    ]
    assert "ReplicatedReplacingMergeTree" in engines
    assert "ReplicatedReplacingMergeTree(recorded_at)" in engines
    assert "ReplicatedAggregatingMergeTree" in engines
    assert all(engine.startswith("Replicated") for engine in engines)


def test_over_shards_rows_that_become_one_are_in_one_shard() -> None:
    """A table over all shards for each local one, spread by its sorting key; folds read locally and write to all."""
    made = [parsed(statement) for statement in statements(SHARDED)]
    local = {text.split()[5].removesuffix("_local") for text in made if "ENGINE = Replicated" in text}
    spread = {text.split()[5] for text in made if "ENGINE = Distributed" in text}
    assert local == spread
    assert {"events", "requests_folded", "dead_letters_stored"} < spread
    (events,) = [text for text in made if "IF NOT EXISTS events ON" in text]
    assert "Distributed(main, falseok, events_local, cityHash64(engine_id, request_id, ts, id))" in events
    folds = [text for text in made if text.startswith("CREATE MATERIALIZED VIEW")]
    assert folds
    assert all("FROM events_local" in text and "_local AS SELECT" not in text for text in folds)
    assert all("events_local" not in text for text in made if text.startswith("CREATE OR REPLACE VIEW"))
    assert all("ZSTD(1)" not in text for text in made)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"cluster": "a`b"}, "not the name of a cluster"),
        ({"cluster": "main", "database": "x; DROP"}, "not the name of a database"),
        ({"codec": "ZSTD(1), NONE"}, "not a codec"),
        ({"sharded": True}, "--cluster"),
    ],
)
def test_nothing_but_names_and_codecs_gets_into_a_statement(wrong: dict[str, object], reason: str) -> None:
    """They are put into text, so they are checked."""
    with pytest.raises(MigrationError, match=reason):
        SchemaVariant(**wrong)  # type: ignore[arg-type]


def test_a_statement_of_another_kind_is_refused_for_a_cluster() -> None:
    """Rather than run on one node of it."""
    with pytest.raises(MigrationError, match="no form for a cluster"):
        REPLICATED.statements("OPTIMIZE TABLE events")


@pytest.mark.parametrize("variant", [SchemaVariant(), SHARDED], ids=["server", "sharded"])
def test_users_are_sql_and_hold_no_password(variant: SchemaVariant) -> None:
    """Each gets what it needs; whoever has no password is let in from nowhere."""
    made = schema_users.statements(variant, {"writer": "open sesame"})
    for statement in made:
        parsed(statement)
    text = "\n".join(made)
    assert "sesame" not in text
    assert "GRANT" in text
    assert "falseok_writer" in text
    writer = [line for line in made if "TO falseok_writer" in line and "INSERT" in line]
    assert any(".events TO" in line for line in writer)
    assert (len(writer) > 2) == variant.sharded
    assert not any("INSERT" in line for line in made if "falseok_reader" in line or "falseok_rules" in line)
    assert 3 == text.count("HOST NONE")
    assert 1 == text.count("HOST ANY")


def test_the_password_of_nobody_is_a_mistake() -> None:
    """A misspelt user must not be passed over."""
    with pytest.raises(MigrationError, match="writer, rules, reader"):
        schema_users.statements(EMBEDDED, {"writers": "x"})
