"""A store reached through ClickHouse clients, wherever the engine runs: what is written, what is asked, what errors mean.

Writing and asking use separate clients, so that a long query holds up no insert. Opening is the business of the
subclasses: `embedded` (chDB in this process) and `server_store` (a ClickHouse server or cluster over HTTP).
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from falseok_pipeline import migrations
from falseok_pipeline.dead_letters import DeadLetter
from falseok_pipeline.engine import as_insert_error, as_query_error, select
from falseok_pipeline.errors import QueryError, StoreUnavailableError
from falseok_pipeline.limits import check_statement
from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant

INSERT_SETTINGS = {
    # Text that looks like a date stays the text it is.
    "input_format_try_infer_dates": "0",
    "input_format_try_infer_datetimes": "0",
    "input_format_skip_unknown_fields": "0",
    "max_insert_threads": "1",
    "optimize_on_insert": "0",
}


class ClientStore:
    """Thread-safe; calls on the writing side wait for each other. Also a `Store` and an `EventSink`."""

    def __init__(
        self,
        writer: Client,
        open_reader: Callable[[], Client],
        held: ExitStack,
        *,
        insert_settings: Mapping[str, str],
        variant: SchemaVariant = EMBEDDED,
    ) -> None:
        """`open_reader` gives a client that can only read, within limits; `held` is closed with the store."""
        self._writer = writer
        self._open_reader = open_reader
        self._reader = open_reader()
        self._reading = threading.Lock()
        self._insert_settings = dict(insert_settings)
        self._variant = variant
        held.callback(lambda: self._reader.close())  # noqa: PLW0108 - it is replaced when a query fails
        self._held = held

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """See `Store.query`."""
        check_statement(sql)
        with self._reading:
            try:
                return select(self._reader, sql, parameters)
            except QueryError:
                self._after_failed_query()
                raise

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run one statement that may write. Raises `QueryError`."""
        try:
            self._writer.command(sql, parameters=dict(parameters) if parameters else None)
        except ClickHouseError as error:
            raise as_query_error(error) from error

    def insert_events(self, lines: bytes) -> None:
        """Store lines of validated events as they are; all or none of the call, durable when it returns.

        Repeating it changes nothing that can be seen.

        Raises:
            RowsRefusedError: at least one of the lines is not acceptable to the store.
            StoreUnavailableError: try later.
        """
        self._insert("events", lines, "JSONEachRow")

    def insert_dead_letters(self, letters: Sequence[DeadLetter], now_micros: int) -> None:
        """Store dead letters; repeating it changes nothing but `recorded_at`. Raises as `insert_events`."""
        if letters:
            rows = [list(letter.to_row(now_micros).values()) for letter in letters]
            self._insert_native("dead_letters_stored", rows, list(letters[0].to_row(now_micros)))

    def insert_rows(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Store rows that all have the same columns. Raises as `insert_events`."""
        listed = [dict(row) for row in rows]
        if listed:
            self._insert_native(table, [list(row.values()) for row in listed], list(listed[0]))

    def migrate(self, now_micros: int) -> list[str]:
        """Bring the schema up to date; names of what was applied. Raises `MigrationError`."""
        applied = self.migrator().apply(now_micros)
        return [migration.name for migration in applied]

    def migrator(self) -> migrations.Migrator:
        """The migrations of this release against this store."""
        return migrations.Migrator(self.command, self._select_unlimited, migrations.shipped(), self._variant)

    def close(self) -> None:
        """Close the database and let go of the claim. Idempotent."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _after_failed_query(self) -> None:
        """What an engine needs before it can be asked again."""

    def _select_unlimited(self, sql: str) -> list[dict[str, Any]]:
        return select(self._writer, sql, None)

    def _insert(self, table: str, block: bytes, form: str) -> None:
        try:
            self._writer.raw_insert(table, insert_block=block, fmt=form, settings=self._insert_settings)
        except ClickHouseError as error:
            raise as_insert_error(error) from error
        except OSError as error:
            raise _no_room(error) from error

    def _insert_native(self, table: str, rows: Sequence[Sequence[Any]], columns: Sequence[str]) -> None:
        try:
            self._writer.insert(table, rows, column_names=columns)
        except ClickHouseError as error:
            raise as_insert_error(error) from error
        except OSError as error:
            raise _no_room(error) from error


def _no_room(error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"The store cannot take events now: {os.strerror(error.errno or 0)} "
        f"(database or temporary files in {tempfile.gettempdir()})."
    )
