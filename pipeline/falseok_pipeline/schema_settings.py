"""What of a schema is a setting rather than a migration: how long rows are kept, and how columns are packed.

Read from the store, compared with what is wanted, and changed by `ALTER TABLE`; applying twice changes nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from falseok_pipeline.schema_variants import LOCAL, SchemaVariant

TIME_COLUMNS: Mapping[str, str] = {
    "events": "ts",
    "requests_folded": "last_seen",
    "transfers_folded": "last_seen",
    "handshakes_folded": "ts",
    "dead_letters_stored": "recorded_at",
}
"""Tables that grow with the traffic, and the column (microseconds since the epoch) that tells a row's age. What is known
of engines, pairs and collectors is small and stays, as do the two folds of special cases, which know no time."""

_DATE_TIME_MAX = 2**32 - 1
_TTL = re.compile(r"\bTTL\b.*?toIntervalDay\((?P<days>\d+)\)", re.DOTALL)
_PACKING = re.compile(r"ZSTD\(\d+\)|LZ4HC\(\d+\)|LZ4HC|LZ4|NONE")


@dataclass(frozen=True)
class Change:
    """One statement, why it is needed, and whether it takes data away."""

    statement: str
    reason: str
    destructive: bool = False


def changes(
    query: Callable[[str], list[dict[str, Any]]],
    variant: SchemaVariant,
    *,
    retention_days: int | None,
    recode: bool,
    tables: Mapping[str, str] = TIME_COLUMNS,
) -> list[Change]:
    """What to run so that rows are kept for `retention_days` (None: left as it is, 0: for ever) and, with `recode`, columns
    have the variant's codec. Raises what `query` raises.
    """
    found: list[Change] = []
    if retention_days is not None:
        found += _retention(query, variant, retention_days, tables)
    if recode:
        found += _codecs(query, variant)
    return found


def _retention(
    query: Callable[[str], list[dict[str, Any]]],
    variant: SchemaVariant,
    days: int,
    tables: Mapping[str, str],
) -> list[Change]:
    rows = query("SELECT name, engine_full FROM system.tables WHERE database = currentDatabase()")
    engines = {str(row["name"]): str(row["engine_full"]) for row in rows}
    found = []
    for table, column in tables.items():
        own = _own(table, variant)
        if own not in engines:
            continue
        matched = _TTL.search(engines[own])
        has = int(matched["days"]) if matched else 0
        if has == days:
            continue
        keeps = f"{has} days" if has else "for ever"
        if not days:
            found.append(
                Change(
                    f"{_alter(own, variant)} REMOVE TTL", f"{own} is kept {keeps}, should be kept for ever"
                )
            )
            continue
        # A clock that is wrong beyond what DateTime can hold must not wrap around, with the retention added.
        latest = _DATE_TIME_MAX - (days + 1) * 86_400
        seconds = f"toDateTime(least(greatest(intDiv({column}, 1000000), 0), {latest}))"
        found.append(
            Change(
                f"{_alter(own, variant)} MODIFY TTL {seconds} + toIntervalDay({days})",
                f"{own} is kept {keeps}, should be kept {days} days",
                destructive=not has or days < has,
            )
        )
    return found


def _codecs(query: Callable[[str], list[dict[str, Any]]], variant: SchemaVariant) -> list[Change]:
    rows = query(
        "SELECT table, name, type, compression_codec FROM system.columns "
        "WHERE database = currentDatabase() AND compression_codec != '' ORDER BY table, position"
    )
    found = []
    for row in rows:
        has = str(row["compression_codec"])
        wanted = _PACKING.sub(variant.codec, has)
        if wanted != has:
            table, column = str(row["table"]), str(row["name"])
            statement = f"{_alter(table, variant)} MODIFY COLUMN `{column}` {wanted}"
            found.append(Change(statement, f"{table}.{column} has {has}, should have {wanted}"))
    return found


def _own(table: str, variant: SchemaVariant) -> str:
    return f"{table}{LOCAL}" if variant.sharded else table


def _alter(table: str, variant: SchemaVariant) -> str:
    on_cluster = f" ON CLUSTER `{variant.cluster}`" if variant.cluster else ""
    return f"ALTER TABLE `{table}`{on_cluster}"


def refused(found: Sequence[Change]) -> list[Change]:
    """Those that need the operator's word."""
    return [change for change in found if change.destructive]
