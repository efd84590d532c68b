"""Which statements are answered at all."""

import pytest

from falseok_pipeline.errors import QueryError
from falseok_pipeline.limits import STANDARD, check_statement


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "-- a comment\n  WITH 1 AS x SELECT x",
        "/* file('/etc/passwd') */ (SELECT 1)",
        "SELECT 'insert into file(''x'')' AS \"url(\"",
        "SELECT ';' ; ",
        "SHOW TABLES",
        "DESCRIBE events",
        "EXPLAIN SELECT 1",
        "SELECT profile FROM t WHERE file = 'a (b)'",
    ],
)
def test_a_query_over_the_store_is_let_through(sql: str) -> None:
    """Whatever stands in comments, texts and quoted names is not a statement."""
    check_statement(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO events SELECT 1",
        "DROP TABLE events",
        "SELECT 1; SELECT 2",
        "SET readonly = 0",
        "KILL QUERY WHERE 1",
        "",
        "/* SELECT */ SYSTEM SHUTDOWN",
        "SELECT file('/etc/passwd')",
        "SELECT * FROM url ('http://localhost')",
        "SELECT * FROM s3Cluster('x')",
        "SELECT * FROM Python(x)",
        "SELECT 1 INTO\nOUTFILE 'x'",
        "SELECT '\\'' , file('/etc/passwd')",
    ],
)
def test_anything_else_is_refused(sql: str) -> None:
    """Statements that write, and functions that reach files or the network."""
    with pytest.raises(QueryError) as refused:
        check_statement(sql)
    assert 164 == refused.value.code


def test_readonly_is_set_last() -> None:
    """After `readonly` no setting can be set any more, our own neither."""
    assert "readonly" == list(STANDARD.settings())[-1]
