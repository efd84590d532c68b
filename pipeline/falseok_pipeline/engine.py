"""Handles to the embedded engine (chDB): opening them, what their errors mean, and what they cost to share.

chDB hosts one database path a process and lets one process open a path. A handle serialises its calls, so
every thread that must not wait for another takes its own.
"""

import fcntl
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from falseok_pipeline.errors import (
    PipelineError,
    QueryError,
    RowsRefusedError,
    StoreBusyError,
    StoreUnavailableError,
)
from falseok_pipeline.limits import QueryLimits

_CODE = re.compile(r"Code: (\d+)")
_PLACEHOLDER = re.compile(r"\{\s*(\w+)\s*:")
_NOISE = re.compile(r"\s*\((?:version|for url) [^)]*\)| with url: \S+")
_PID = re.compile(r"PID: (\d+)")

REFUSALS = frozenset(
    {6, 25, 26, 27, 32, 33, 38, 41, 53, 62, 69, 70, 72, 117, 130, 131, 167, 190, 306, 321, 349, 407, 441, 467}
)
"""ClickHouse error codes that say that the rows themselves are at fault (`ErrorCodes.cpp`): parse errors,
incorrect data, too deep, out of range, type mismatch."""


def open_handle(path: Path, limits: QueryLimits | None = None) -> Client:
    """One handle to the database at `path`; with limits it can only read, for good.

    Raises:
        StoreBusyError: another process has the database open.
    """
    path.mkdir(parents=True, exist_ok=True)
    try:
        client = clickhouse_connect.get_client(dsn=f"chdb://{path}")
    except (ClickHouseError, RuntimeError) as error:
        raise _why_not_open(path, error) from error
    if limits is not None:
        for name, value in limits.settings().items():
            client.set_client_setting(name, value)
    return client


def as_query_error(error: Exception) -> QueryError:
    """A failed statement in words: the engine's message without its stack of repetitions."""
    message = str(error).strip()
    code = error_code(error)
    text = message.split("DB::Exception:")[-1].strip() if code is not None else message
    return QueryError(_NOISE.sub("", text).strip(), code)


def as_insert_error(error: Exception) -> RowsRefusedError | StoreUnavailableError:
    """Whether the rows are at fault or the moment is."""
    query_error = as_query_error(error)
    if query_error.code in REFUSALS:
        return RowsRefusedError(str(query_error), query_error.code)
    return StoreUnavailableError(f"The store cannot take events now: {query_error}")


def error_code(error: Exception) -> int | None:
    """ClickHouse's error code, None for an error that has none."""
    if isinstance(error, DatabaseError) and error.code:
        return int(error.code)
    found = _CODE.search(str(error))
    return int(found[1]) if found else None


def select(client: Client, sql: str, parameters: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Rows of one query as dictionaries; parameters are bound by the engine, never formatted into the text.

    Raises:
        QueryError: the statement was refused or failed.
    """
    names = set(_PLACEHOLDER.findall(sql))
    bound = {name: value for name, value in (parameters or {}).items() if name in names}
    try:
        return list(client.query(sql.rstrip().removesuffix(";"), parameters=bound or None).named_results())
    except ClickHouseError as error:
        raise as_query_error(error) from error


def _why_not_open(path: Path, error: Exception) -> PipelineError:
    holder = _lock_holder(path / "status")
    if holder is not None:
        return StoreBusyError(
            f"The store {path} is open in process {holder or 'unknown'}. Stop that process, or ask it: "
            "a running `falseok run` answers queries for the other commands."
        )
    return StoreUnavailableError(f"The store {path} cannot be opened: {str(error).strip()}")


def _lock_holder(status_file: Path) -> str | None:
    """Process id of the engine that has the database open ('' when it does not say), None when nobody has."""
    try:
        with status_file.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found = _PID.search(file.read())
                return found[1] if found else ""
    except OSError:
        return None
    return None
