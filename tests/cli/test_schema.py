"""`falseok schema`: a store brought to the schema of this release, said beforehand, and refused where it would hurt."""

import uuid
from pathlib import Path
from urllib.parse import urlsplit

import chdb
import pytest
from tests.cli.command_line import answer, falseok
from tests.pipeline.http_front import RunningFront
from tests.pipeline.servers import real_server

from falseok_pipeline.kafka_engine import DROPPED
from falseok_pipeline.migrations import shipped

NAMES = [migration.name for migration in shipped()]


@pytest.fixture
def url(front: RunningFront) -> str:
    """A database that is not there yet, on the server of `make test-server` if one is named."""
    parts = urlsplit(real_server() or front.store_url)
    return f"{parts.scheme}://{parts.netloc}/falseok_test_{uuid.uuid4().hex[:12]}"


def statements(text: str) -> list[str]:
    """The SQL statements of a command's output; fails for what the engine's parser does not take."""
    connection = chdb.connect(":memory:")
    found = [part for part in text.split(";\n") if part.strip()]
    for statement in found:
        literal = statement.replace("\\", "\\\\").replace("'", "\\'")
        connection.query(f"SELECT formatQuery('{literal}')", "TSVRaw")
    connection.close()
    return found


def test_a_server_is_brought_up_to_date_once(url: str) -> None:
    """Pending before, applied after; the second time there is nothing to do, and the database was made on the way."""
    absent = falseok("schema", "status", "--store", url)
    assert 2 == absent.exit_code
    assert "schema apply" in absent.stderr
    assert {"applied": NAMES, "changed": [], "ingest": None} == answer("schema", "apply", "--store", url)
    assert {"applied"} == {row["state"] for row in answer("schema", "status", "--store", url)}
    assert "nothing was to be done" in falseok("schema", "apply", "--store", url).stdout
    assert {"migrations": [], "changes": [], "ingest": []} == answer("schema", "plan", "--store", url)


def test_retention_is_said_first_and_needs_a_word(url: str) -> None:
    """Rows that a shorter retention takes are not taken unasked; a plan changes nothing."""
    falseok("schema", "apply", "--store", url)
    plan = falseok("schema", "plan", "--store", url, "--retention-days", "30").stdout
    assert 5 == plan.count("-- takes data away: ")
    assert 5 == sum("MODIFY TTL" in statement for statement in statements(plan))
    refused = falseok("schema", "apply", "--store", url, "--retention-days", "30")
    assert 2 == refused.exit_code
    assert "--allow-destructive" in refused.stderr
    done = answer("schema", "apply", "--store", url, "--retention-days", "30", "--allow-destructive")
    assert 5 == len(done["changed"])
    assert [] == answer("schema", "apply", "--store", url, "--retention-days", "30")["changed"]


def test_the_embedded_store_has_the_same_commands(tmp_path: Path) -> None:
    """Without a server it is that of the data directory; what it cannot be is an error."""
    assert NAMES == answer("schema", "apply", "--data", tmp_path)["applied"]
    assert 0 == falseok("schema", "status", "--data", tmp_path).exit_code
    for options in (("--cluster", "main"), ("--replicated",), ("--ingest", "kafka-engine")):
        refused = falseok("schema", "apply", "--data", tmp_path, *options)
        assert 2 == refused.exit_code
        assert "embedded store" in refused.stderr
        assert "--store" in refused.stderr


def test_all_of_it_can_be_printed_without_a_store() -> None:
    """For an administrator who runs it by hand: every statement is SQL, on every node."""
    everything = statements(falseok("schema", "plan", "--all", "--cluster", "main", "--sharded").stdout)
    assert len(everything) > len(NAMES)
    assert all("ON CLUSTER `main`" in statement for statement in everything)


def test_kafkas_engine_is_planned_after_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers and topics are those of the settings; its consumer group is not that of our own consumers."""
    monkeypatch.setenv("FALSEOK_KAFKA_BOOTSTRAP_SERVERS", "kafka-1:9092, kafka-2:9092")
    monkeypatch.setenv("FALSEOK_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    planned = falseok("schema", "plan", "--all", "--ingest", "kafka-engine", "--kafka-consumers", "4")
    made = [text for text in statements(planned.stdout) if "kafka_" in text]
    assert 2 * len(DROPPED) == len(made)
    (engine,) = [text for text in made if "ENGINE = Kafka" in text]
    assert "kafka_broker_list = 'kafka-1:9092,kafka-2:9092'" in engine
    assert "kafka_group_name = 'falseok.pipeline.clickhouse'" in engine
    assert "kafka_num_consumers = 4" in engine
    assert "server's configuration" in planned.stderr


def test_users_get_their_passwords_from_files(tmp_path: Path) -> None:
    """Only a hash of it is printed; an empty file, or half an option, is an error that says so."""
    (tmp_path / "writer").write_text("open sesame\n")
    (tmp_path / "empty").write_text("\n")
    printed = falseok("schema", "users", "--password-file", f"writer={tmp_path / 'writer'}").stdout
    assert "sesame" not in printed
    assert "sha256_hash" in printed
    assert len(statements(printed)) > 5
    for option, reason in (
        (f"reader={tmp_path / 'empty'}", "is empty"),
        ("reader", "USER=FILE"),
        (f"root={tmp_path / 'writer'}", "no user"),
    ):
        refused = falseok("schema", "users", "--password-file", option)
        assert 2 == refused.exit_code
        assert reason in refused.stderr


def test_a_url_that_is_none_and_a_server_that_is_away_are_told_apart() -> None:
    """One line each, with what to check."""
    for url, reason in (
        ("http://localhost/x", "clickhouse://host"),
        ("clickhouse://me:secret@localhost/x", "FALSEOK_STORE_PASSWORD_FILE"),
        ("clickhouse://127.0.0.1:1/x", "does not let us in"),
    ):
        refused = falseok("schema", "status", "--store", url)
        assert 2 == refused.exit_code
        assert reason in refused.stderr
        assert "secret" not in refused.stderr
