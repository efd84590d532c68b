"""A store on a server: its address, and what is said when nobody answers or the schema is missing."""

import pytest
from tests.kafka.broker import free_ports
from tests.pipeline.http_front import RunningFront
from tests.pipeline.servers import fresh_database
from tests.pipeline.stories import Fleet, healthy

from falseok_pipeline.errors import MigrationError, PipelineError, QueryError, StoreUnavailableError
from falseok_pipeline.server_store import ServerAddress, ServerStore


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("clickhouse://host", "clickhouse://host:8123/falseok"),
        ("clickhouses://host", "clickhouses://host:8443/falseok"),
        ("clickhouse://me@host:9000/other", "clickhouse://host:9000/other"),
        ("clickhouse://[::1]:8123/x", "clickhouse://::1:8123/x"),
    ],
)
def test_an_address_is_understood_and_shown(url: str, shown: str) -> None:
    """With ClickHouse's ports, and our database, as defaults."""
    assert shown == str(ServerAddress.parse(url))


def test_a_user_in_the_url_wins() -> None:
    """Over the setting; the password never shows."""
    address = ServerAddress.parse("clickhouse://me@host", username="you", password="open sesame")  # noqa: S106 - of nobody
    assert ("me", "open sesame") == (address.username, address.password)
    assert "sesame" not in repr(address) + str(address)


@pytest.mark.parametrize(
    "url", ["host:8123", "http://host", "clickhouse://", "clickhouse://host:port", "clickhouse://u:p@h"]
)
def test_what_is_no_address_says_how_one_reads(url: str) -> None:
    """A password in the URL included: URLs are shown and logged."""
    with pytest.raises(PipelineError) as refused:
        ServerAddress.parse(url)
    assert ":p@" not in str(refused.value)


def test_nobody_there_says_what_to_check() -> None:
    """Not a traceback of the HTTP library."""
    (port,) = free_ports(1)
    with pytest.raises(StoreUnavailableError, match="FALSEOK_STORE_URL"):
        ServerStore(ServerAddress.parse(f"clickhouse://127.0.0.1:{port}"))


def test_a_missing_schema_says_what_to_do(front: RunningFront) -> None:
    """A pipeline does not make tables: on a cluster that is an administrator's decision."""
    address = ServerAddress.parse(f"{front.store_url}_of_nobody")
    with ServerStore(address, use_database=False) as store:
        store.create_database()
    with ServerStore(address) as store, pytest.raises(MigrationError, match="falseok schema apply"):
        store.require_schema()
    with fresh_database(front.store_url) as store:
        store.require_schema()


def test_a_full_disk_and_a_dead_server_mean_later(front: RunningFront) -> None:
    """The rows are not at fault: they are offered again until they are stored."""
    line = healthy(Fleet(), 1)[0] + b"\n"
    with fresh_database(front.store_url) as store:
        front.refuse(1)
        with pytest.raises(StoreUnavailableError, match="not enough space"):
            store.insert_events(line)
        front.kill()
        with pytest.raises(StoreUnavailableError):
            store.insert_events(line)
        with pytest.raises(QueryError) as asked:
            store.query("SELECT 1")
        assert "max_execution_time" not in str(asked.value)
        front.start()
        store.insert_events(line)
        assert [{"n": 1}] == store.query("SELECT count() AS n FROM events")
