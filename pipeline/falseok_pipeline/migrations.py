"""Brings a store to the schema of this release: numbered SQL files, applied once each, in order, never edited.

A file holds statements separated by lines that read `-- statement`. Every statement is idempotent
(`IF NOT EXISTS`, `OR REPLACE`), so that a migration cut off half-way is simply applied again.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from importlib.resources import files
from typing import Any

from falseok_pipeline.errors import MigrationError, QueryError
from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant

_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_SEPARATOR = re.compile(r"^-- statement[ \t]*$", re.MULTILINE)
_BOOKKEEPING = """CREATE TABLE IF NOT EXISTS schema_migrations
(number UInt32, name String, checksum String, applied_at Int64)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY number
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
"""

_NO_SUCH_TABLE, _NO_SUCH_DATABASE = 60, 81
_DESTRUCTIVE = re.compile(
    r"^\s*(?:(?:DROP|TRUNCATE|DELETE|RENAME|EXCHANGE|DETACH)\b|ALTER\s+TABLE\s+\S+.*?\b(?:DROP|DELETE|UPDATE|MODIFY|CLEAR)\b)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)

Command = Callable[[str], None]
Query = Callable[[str], list[dict[str, Any]]]


@dataclass(frozen=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Digest of the file as it is."""
        return sha256(self.text.encode()).hexdigest()

    def statements(self) -> list[str]:
        """The statements in order, without empty ones."""
        return split_statements(self.text)


def split_statements(text: str) -> list[str]:
    """The statements of a file in which lines that read `-- statement` part them, without empty ones."""
    parts = (part.strip() for part in _SEPARATOR.split(text))
    return [part for part in parts if part]


class State(StrEnum):
    """Of one migration in one store."""

    APPLIED = "applied"
    PENDING = "pending"


@dataclass(frozen=True)
class Migrator:
    """Migrations of this release against one store, reached through two functions."""

    command: Command
    query: Query
    migrations: Sequence[Migration]
    variant: SchemaVariant = EMBEDDED

    def status(self) -> list[tuple[Migration, State]]:
        """Every migration of this release and whether the store has it. Changes nothing.

        Raises:
            MigrationError: an applied migration was changed since, or is not known to this release.
            QueryError: the store cannot be asked.
        """
        try:
            rows = self.query("SELECT number, name, checksum FROM schema_migrations FINAL ORDER BY number")
        except QueryError as error:
            if error.code not in {_NO_SUCH_TABLE, _NO_SUCH_DATABASE}:
                raise
            rows = []
        applied = {int(row["number"]): row for row in rows}
        self._check_known(applied)
        return [
            (migration, State.APPLIED if migration.number in applied else State.PENDING)
            for migration in self.migrations
        ]

    def plan(self) -> list[Migration]:
        """Migrations that `apply` would apply, in order. Raises as `status`."""
        return [migration for migration, state in self.status() if state is State.PENDING]

    def statements(self, migration: Migration) -> list[str]:
        """What applying the migration runs, in this store's variant."""
        return [each for statement in migration.statements() for each in self.variant.statements(statement)]

    def apply(self, now_micros: int, *, allow_destructive: bool = False) -> list[Migration]:
        """Apply what is pending and record it; returns what was applied.

        Raises as `status`, and `MigrationError` before anything is done when a pending migration takes data away and
        `allow_destructive` is not given.
        """
        pending = self.plan()
        if not allow_destructive:
            _refuse_destructive(pending)
        for statement in self.variant.statements(_BOOKKEEPING):
            self.command(statement)
        for migration in pending:
            for statement in self.statements(migration):
                self.command(statement)
            # The values are our own file's number, name and digest: nothing here comes from outside.
            self.command(
                "INSERT INTO schema_migrations VALUES "  # noqa: S608
                f"({migration.number}, '{migration.name}', '{migration.checksum}', {now_micros})"
            )
        return pending

    def _check_known(self, applied: dict[int, dict[str, Any]]) -> None:
        known = {migration.number: migration for migration in self.migrations}
        for number, row in applied.items():
            if number not in known:
                raise MigrationError(
                    f"The store has migration {number:04d}_{row['name']}, which this release does not know: "
                    "it was written by a newer falseok. Upgrade falseok, or name another data directory."
                )
            if known[number].checksum != row["checksum"]:
                raise MigrationError(
                    f"Migration {number:04d}_{row['name']} was changed after it had been applied to this store. "
                    "Migrations are never edited: restore the file and put the change into a new one."
                )


def is_destructive(statement: str) -> bool:
    """Whether a statement takes away, or rewrites, what is stored."""
    return _DESTRUCTIVE.search(statement) is not None


def _refuse_destructive(pending: Sequence[Migration]) -> None:
    found = [migration for migration in pending if any(map(is_destructive, migration.statements()))]
    if found:
        names = ", ".join(f"{migration.number:04d}_{migration.name}" for migration in found)
        raise MigrationError(
            f"Migration {names} takes data away. Read it with `falseok schema plan`, make a backup, and apply it with "
            "`falseok schema apply --allow-destructive`."
        )


def shipped() -> tuple[Migration, ...]:
    """The migrations of this release, in order.

    Raises:
        MigrationError: a file is misnamed, or numbers do not run 1, 2, 3, …
    """
    found = [
        _parse(entry.name, entry.read_text(encoding="utf-8"))
        for entry in files("falseok_pipeline").joinpath("migrations").iterdir()
        if entry.name.endswith(".sql")
    ]
    ordered = tuple(sorted(found, key=lambda migration: migration.number))
    numbers = [migration.number for migration in ordered]
    if numbers != list(range(1, len(numbers) + 1)):
        raise MigrationError(f"Migration numbers must run 1, 2, 3, … without gaps; found {numbers}.")
    return ordered


def _parse(file_name: str, text: str) -> Migration:
    match = _FILE.fullmatch(file_name)
    if match is None:
        raise MigrationError(f"A migration is named NNNN_what_it_does.sql, not {file_name}.")
    return Migration(int(match["number"]), match["name"], text)
