"""ClickHouse's HTTP protocol on the Unix socket: what it answers, what it refuses, who may ask."""

import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import PipelineError
from falseok_pipeline.limits import QueryLimits
from falseok_pipeline.query_server import QueryServer

LIMITS = QueryLimits(execution_seconds=1.0, result_rows=1_000)


@pytest.fixture
def client(store: EmbeddedStore, data: DataDirectory) -> Iterator[httpx.Client]:
    """A plain HTTP client of a running endpoint."""
    store.command("CREATE TABLE t (x Int64) ENGINE = MergeTree ORDER BY x")
    store.insert_rows("t", [{"x": 1}, {"x": 2}])
    with (
        QueryServer(data.store, data.query_socket, LIMITS),
        httpx.Client(
            transport=httpx.HTTPTransport(uds=str(data.query_socket)), base_url="http://store", timeout=60
        ) as opened,
    ):
        yield opened


def test_a_query_may_stand_in_the_body_or_in_the_address(client: httpx.Client) -> None:
    """Or in both, as ClickHouse joins them."""
    assert "2\n" == client.post("/", content="SELECT max(x) FROM t").text
    assert "1\n" == client.get("/", params={"query": "SELECT min(x) FROM t"}).text
    assert "3\n" == client.post("/", params={"query": "SELECT sum(x)"}, content="FROM t").text
    assert "Ok.\n" == client.get("/ping").text


def test_the_format_is_the_statements_own_or_the_one_asked_for(client: httpx.Client) -> None:
    """FORMAT in the statement, `default_format`, or the header; else tab separated."""
    sql = "SELECT x FROM t ORDER BY x"
    asked = client.post("/", params={"default_format": "JSONEachRow"}, content=sql)
    assert ('{"x":1}\n{"x":2}\n', "JSONEachRow") == (asked.text, asked.headers["X-ClickHouse-Format"])
    assert "1,2\n" == client.post("/", content="SELECT 1, 2 FORMAT CSV").text
    header = client.post("/", headers={"X-ClickHouse-Format": "CSV"}, content="SELECT 'a'")
    assert '"a"\n' == header.text
    wrong = client.post("/", params={"default_format": "no; such"}, content=sql)
    assert (500, "73") == (wrong.status_code, wrong.headers["X-ClickHouse-Exception-Code"])


def test_parameters_are_bound(client: httpx.Client) -> None:
    """A value cannot become part of the statement."""
    answer = client.post("/", params={"param_name": "it's; DROP"}, content="SELECT {name:String}")
    assert "it\\'s; DROP\n" == answer.text


@pytest.mark.parametrize(
    ("params", "sql", "status", "code"),
    [
        ({}, "SELECT nope", 404, 47),
        ({}, "SELECT * FROM nope", 404, 60),
        ({}, "SELECT FROM WHERE", 400, 62),
        ({}, "", 400, 62),
        ({}, "DROP TABLE t", 403, 164),
        ({}, "INSERT INTO t VALUES (3)", 403, 164),
        ({}, "SELECT file('/etc/passwd')", 403, 164),
        ({}, "SELECT 1 SETTINGS max_result_rows = 0", 403, 164),
        ({}, "SELECT * FROM numbers(1001)", 500, 396),
        ({}, "SELECT sleep(3)", 408, 159),
        ({"max_result_rows": "1"}, "SELECT * FROM t", 500, 396),
        ({"max_result_rows": "0"}, "SELECT 1", 403, 164),
        ({"max_result_rows": "1001"}, "SELECT 1", 403, 164),
        ({"max_result_rows": "1e1"}, "SELECT 1", 403, 164),
        ({"max_threads": "1"}, "SELECT 1", 403, 164),
        ({"allow_ddl": "1"}, "SELECT 1", 403, 164),
    ],
)
def test_refusals_are_told_as_clickhouse_tells_them(
    client: httpx.Client, params: dict[str, str], sql: str, status: int, code: int
) -> None:
    """Status, header and text carry the code, and nothing was changed."""
    answer = client.post("/", params=params, content=sql)
    assert (status, str(code)) == (answer.status_code, answer.headers["X-ClickHouse-Exception-Code"])
    assert answer.text.startswith(f"Code: {code}. DB::Exception: ")
    assert "2\n" == client.post("/", content="SELECT count() FROM t").text


def test_a_statement_that_is_no_text_is_refused(client: httpx.Client) -> None:
    """Bytes that are not UTF-8 cannot be a statement."""
    assert 400 == client.post("/", content=b"SELECT '\xff'").status_code


def test_a_failed_query_does_not_reach_the_next_one(client: httpx.Client) -> None:
    """Every query has a handle of its own, with nothing left in it of another."""
    client.post("/", content="SELECT throwIf(number = 900) FROM numbers(1000)")
    client.post("/", content="USE system")
    assert "1\n" == client.post("/", content="SELECT 1").text
    assert "default\n" == client.post("/", content="SELECT currentDatabase()").text


def test_output_settings_may_be_chosen(client: httpx.Client) -> None:
    """How values are written is the asker's business."""
    answer = client.post(
        "/",
        params={"output_format_json_quote_64bit_integers": "1", "default_format": "JSONEachRow"},
        content="SELECT x FROM t WHERE x = 1",
    )
    assert '{"x":"1"}\n' == answer.text


def test_queries_run_side_by_side_and_beside_an_insert(client: httpx.Client, store: EmbeddedStore) -> None:
    """A slow query holds up neither another one nor the writer."""
    slow = threading.Thread(target=client.post, args=("/",), kwargs={"content": "SELECT sleep(0.9)"})
    slow.start()
    store.insert_rows("t", [{"x": 5}])
    assert "5\n" == client.post("/", content="SELECT max(x) FROM t").text
    assert slow.is_alive()
    slow.join()


def test_only_its_owner_may_ask(data: DataDirectory, client: httpx.Client) -> None:
    """The socket's mode keeps everybody else out."""
    assert "Ok.\n" == client.get("/ping").text
    assert 0o600 == stat.S_IMODE(data.query_socket.stat().st_mode)


def test_a_socket_left_behind_is_replaced_and_the_last_one_removed(
    store: EmbeddedStore, data: DataDirectory
) -> None:
    """A killed process leaves its socket; the next one listens on the same path."""
    data.query_socket.touch()
    with QueryServer(data.store, data.query_socket):
        assert stat.S_ISSOCK(data.query_socket.stat().st_mode)
    assert not data.query_socket.exists()


def test_a_socket_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    """The message names the path and the reason."""
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"query socket .*file/query.sock cannot be opened"):
        QueryServer(tmp_path / "store", tmp_path / "file" / "query.sock").start()
