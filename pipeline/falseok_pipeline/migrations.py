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

from falseok_pipeline.errors import MigrationError

_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_SEPARATOR = re.compile(r"^-- statement[ \t]*$", re.MULTILINE)
_BOOKKEEPING = """
CREATE TABLE IF NOT EXISTS schema_migrations
(number UInt32, name String, checksum String, applied_at Int64)
ENGINE = ReplacingMergeTree(applied_at) ORDER BY number
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
"""

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
        parts = (part.strip() for part in _SEPARATOR.split(self.text))
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

    def status(self) -> list[tuple[Migration, State]]:
        """Every migration of this release and whether the store has it.

        Raises:
            MigrationError: an applied migration was changed since, or is not known to this release.
        """
        self.command(_BOOKKEEPING)
        rows = self.query("SELECT number, name, checksum FROM schema_migrations FINAL ORDER BY number")
        applied = {int(row["number"]): row for row in rows}
        self._check_known(applied)
        return [
            (migration, State.APPLIED if migration.number in applied else State.PENDING)
            for migration in self.migrations
        ]

    def plan(self) -> list[Migration]:
        """Migrations that `apply` would apply, in order. Raises as `status`."""
        return [migration for migration, state in self.status() if state is State.PENDING]

    def apply(self, now_micros: int) -> list[Migration]:
        """Apply what is pending and record it; returns what was applied. Raises as `status`."""
        pending = self.plan()
        for migration in pending:
            for statement in migration.statements():
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
