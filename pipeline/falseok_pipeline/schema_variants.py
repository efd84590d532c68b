"""One schema, several shapes: what differs between the embedded store, a server, replicas and shards is put in here,
when a migration is applied, and nowhere else.

A migration has three kinds of statements (`CREATE TABLE`, `CREATE MATERIALIZED VIEW … TO`, `CREATE OR REPLACE VIEW`);
anything else is refused for a cluster, rather than applied to one node of it.
"""

import re
from dataclasses import dataclass

from falseok_pipeline.errors import MigrationError

_TABLE = re.compile(r"^CREATE TABLE IF NOT EXISTS (?P<name>\w+)", re.MULTILINE)
_FOLD = re.compile(r"^CREATE MATERIALIZED VIEW IF NOT EXISTS (?P<name>\w+) TO (?P<target>\w+)", re.MULTILINE)
_VIEW = re.compile(r"^CREATE OR REPLACE VIEW (?P<name>\w+)", re.MULTILINE)
_ENGINE = re.compile(r"^ENGINE = (?P<engine>\w*MergeTree)", re.MULTILINE)
_ORDER = re.compile(r"\bORDER BY (?P<key>\([^)]*\)|\w+)")
_FED = re.compile(r"\bFROM events\b")
_CODEC = re.compile(r"ZSTD\([1-9]\d?\)|LZ4|LZ4HC(?:\([1-9]\d?\))?|NONE")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
USUAL_CODEC = "ZSTD(1)"
LOCAL = "_local"
"""What the name of a shard's own table ends in; the plain name is the table over all shards."""


@dataclass(frozen=True)
class SchemaVariant:
    """How the schema is laid out. The default is one node: the embedded store, or a single server.

    Raises `MigrationError` for a cluster, database or codec that is none.
    """

    cluster: str = ""
    """Name of the cluster in ClickHouse's configuration; every statement then runs `ON CLUSTER`."""
    replicated: bool = False
    """Tables are replicated within each shard."""
    sharded: bool = False
    """Rows are spread over the cluster's shards, each table by its own sorting key."""
    database: str = "default"
    """The database, which shards have to name."""
    codec: str = USUAL_CODEC
    """General-purpose codec of every column."""

    def __post_init__(self) -> None:
        """Nothing but a name or a codec gets into a statement."""
        for what, name in (("cluster", self.cluster or "none"), ("database", self.database)):
            if not _NAME.fullmatch(name):
                raise MigrationError(f"{name!r} is not the name of a {what}.")
        if not _CODEC.fullmatch(self.codec):
            raise MigrationError(
                f"{self.codec!r} is not a codec here: ZSTD(level), LZ4, LZ4HC(level) or NONE."
            )
        if self.sharded and not self.cluster:
            raise MigrationError("Shards need the name of their cluster (--cluster).")

    def statements(self, statement: str) -> list[str]:
        """The statements to run in place of one of a migration, in order."""
        statement = statement.replace(USUAL_CODEC, self.codec)
        if not (self.cluster or self.replicated):
            return [statement]
        if _TABLE.search(statement):
            return self._table(statement)
        if _FOLD.search(statement):
            return [self._fold(statement)]
        if _VIEW.search(statement):
            return [_VIEW.sub(rf"CREATE OR REPLACE VIEW \g<name>{self._on_cluster}", statement)]
        raise MigrationError(f"This statement has no form for a cluster: {statement[:80]}")

    @property
    def _on_cluster(self) -> str:
        return f" ON CLUSTER `{self.cluster}`" if self.cluster else ""

    def _table(self, statement: str) -> list[str]:
        name = _matched(_TABLE, statement)["name"]
        local = f"{name}{LOCAL}" if self.sharded else name
        own = _TABLE.sub(f"CREATE TABLE IF NOT EXISTS {local}{self._on_cluster}", statement)
        if self.replicated:
            own = _ENGINE.sub(r"ENGINE = Replicated\g<engine>", own)
        if not self.sharded:
            return [own]
        # By the sorting key: all rows that are to become one, in a merge or under FINAL, are in one shard.
        key = _matched(_ORDER, statement)["key"].strip("()")
        over_all = (
            f"CREATE TABLE IF NOT EXISTS {name}{self._on_cluster} AS {local}\n"
            f"ENGINE = Distributed(`{self.cluster}`, `{self.database}`, {local}, cityHash64({key}))"
        )
        return [own, over_all]

    def _fold(self, statement: str) -> str:
        made = _FOLD.sub(
            rf"CREATE MATERIALIZED VIEW IF NOT EXISTS \g<name>{self._on_cluster} TO \g<target>", statement
        )
        # It sees what its own shard stores, and spreads what it makes of it over all shards.
        return _FED.sub(f"FROM events{LOCAL}", made) if self.sharded else made


EMBEDDED = SchemaVariant()


def _matched(pattern: re.Pattern[str], statement: str) -> dict[str, str]:
    found = pattern.search(statement)
    if found is None:
        raise MigrationError(f"This statement has no form for shards: {statement[:80]}")
    return found.groupdict()
