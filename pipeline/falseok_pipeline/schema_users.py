"""The users of a shared store, each with no more than it needs, as SQL for whoever administers the server.

| user | who | may |
|---|---|---|
| `falseok_writer` | pipelines | insert events and dead letters, read which migrations are applied |
| `falseok_rules` | the judging process and alerts | read everything of the database, within limits |
| `falseok_reader` | people and Grafana | the same, with tighter limits |

The schema itself is applied by an administrator. Passwords go in as salted hashes, never as text.
"""

import secrets
from collections.abc import Mapping
from hashlib import sha256

from falseok_pipeline.errors import MigrationError
from falseok_pipeline.limits import STANDARD, QueryLimits
from falseok_pipeline.migrations import shipped
from falseok_pipeline.schema_variants import SchemaVariant

USERS = ("writer", "rules", "reader")
_WRITTEN = ("events", "dead_letters_stored")
_READER = QueryLimits(execution_seconds=15.0, result_rows=100_000, result_bytes=64 * 1024 * 1024)


def statements(variant: SchemaVariant, passwords: Mapping[str, str]) -> list[str]:
    """Statements that make or bring up to date roles, settings profiles and users.

    Args:
        variant: which database and cluster.
        passwords: by user, without the prefix. A user without one is made, and let in from nowhere.

    Raises:
        MigrationError: a name that is no user of ours.
    """
    unknown = sorted(set(passwords) - set(USERS))
    if unknown:
        raise MigrationError(f"{', '.join(unknown)} is no user here; there are {', '.join(USERS)}.")
    on = f" ON CLUSTER `{variant.cluster}`" if variant.cluster else ""
    database = f"`{variant.database}`"
    made = [f"CREATE ROLE IF NOT EXISTS falseok_{user}{on}" for user in USERS]
    for user, limits in (("rules", STANDARD), ("reader", _READER)):
        settings = ", ".join(_bounded(name, value) for name, value in _settings(limits).items())
        made.append(
            f"CREATE SETTINGS PROFILE OR REPLACE falseok_{user}{on} SETTINGS {settings}, "
            f"readonly = 2, distributed_product_mode = 'global' TO falseok_{user}"
        )
    made += [f"GRANT{on} INSERT ON {database}.{table} TO falseok_writer" for table in _tables(variant)]
    made.append(f"GRANT{on} SELECT ON {database}.schema_migrations TO falseok_writer")
    made += [f"GRANT{on} SELECT ON {database}.* TO falseok_{user}" for user in ("rules", "reader")]
    for user in USERS:
        made.append(f"CREATE USER IF NOT EXISTS falseok_{user}{on} HOST NONE")
        if user in passwords:
            made.append(f"ALTER USER falseok_{user}{on} {_identified(passwords[user])} HOST ANY")
        made.append(f"ALTER USER falseok_{user}{on} DEFAULT DATABASE {database}")
        made.append(f"GRANT{on} falseok_{user} TO falseok_{user}")
    return made


def _tables(variant: SchemaVariant) -> list[str]:
    """What a writer inserts into: the tables themselves and, over shards, what the folds put their rows into."""
    if not variant.sharded:
        return list(_WRITTEN)
    folded = [
        word
        for migration in shipped()
        for statement in migration.statements()
        if "CREATE MATERIALIZED VIEW" in statement
        for word in statement.split(" TO ")[1].split()[:1]
    ]
    return [*_WRITTEN, *folded]


def _settings(limits: QueryLimits) -> dict[str, str]:
    return {name: value for name, value in limits.settings().items() if name != "readonly"}


def _identified(password: str) -> str:
    salt = secrets.token_hex(16).upper()
    digest = sha256((password + salt).encode()).hexdigest().upper()
    return f"IDENTIFIED WITH sha256_hash BY '{digest}' SALT '{salt}'"


def _bounded(name: str, value: str) -> str:
    """Clients may ask for less: Grafana's driver sends a `max_execution_time` of its own. 0 would be no limit at all."""
    if value.replace(".", "", 1).isdigit() and float(value) > 0:
        return f"{name} = {value} MIN 1 MAX {value}"
    return f"{name} = {value if value.isdigit() else repr(value)} READONLY"
