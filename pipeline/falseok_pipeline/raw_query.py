"""Runs one query on a handle of its own, with limits the query cannot change, and gives the formatted bytes."""

import re
from pathlib import Path

import chdb

from falseok_pipeline.engine import as_query_error
from falseok_pipeline.errors import QueryError
from falseok_pipeline.limits import QueryLimits, check_statement
from falseok_pipeline.query_request import LIMITS, QueryRequest

_NUMBER = re.compile(r"\d{1,18}(\.\d+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def run_raw(store: Path, query: QueryRequest, limits: QueryLimits) -> bytes:
    """The answer in the format asked for. Blocks until it is there.

    Raises:
        QueryError: the statement was refused or failed, or a setting is not acceptable.
    """
    check_statement(query.sql)
    settings = _effective(query, limits)
    if not _NAME.fullmatch(query.format):
        raise QueryError(f"{query.format!r} is not a format.", code=73)
    connection = chdb.connect(str(store.resolve()))
    try:
        connection.query("SET " + ", ".join(f"{name} = {_quoted(value)}" for name, value in settings.items()))
        answer = connection.query(query.sql, query.format, params=dict(query.parameters))
        return bytes(answer.bytes() or b"")
    except (RuntimeError, ValueError) as error:
        raise as_query_error(error) from error
    finally:
        connection.close()


def _effective(query: QueryRequest, limits: QueryLimits) -> dict[str, str]:
    """Settings in the order to set them. A limit sent along may lower ours, never raise or lift it."""
    standard = limits.settings()
    for name in query.settings:
        if not _NAME.fullmatch(name):
            raise QueryError(f"{name!r} is not the name of a setting.", code=115)
    lowered = {name: value for name, value in query.settings.items() if name in LIMITS}
    for name, value in lowered.items():
        if not _NUMBER.fullmatch(value) or not 0 < float(value) <= float(standard[name]):
            raise QueryError(f"{name} must be above 0 and at most {standard[name]} here.", code=164)
    return {name: value for name, value in query.settings.items() if name not in LIMITS} | standard | lowered


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
