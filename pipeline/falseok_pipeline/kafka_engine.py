"""The same tables fed by ClickHouse's own Kafka table engine, as SQL: `falseok schema apply --ingest kafka-engine`.

What is gained: no process of ours between Kafka and the store. What is lost: see `docs/kafka.md`. In short, lines with
fields of a later release become dead letters, dead letters are on no topic, and there are no metrics of ours.

Settings of the engine: https://clickhouse.com/docs/engines/table-engines/integrations/kafka
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from string import Template

from falseok_collector.events import CONTRACT_VERSION, ENVELOPE_FIELDS, MAX_LINE_BYTES, Origin
from falseok_pipeline.errors import MigrationError
from falseok_pipeline.migrations import split_statements
from falseok_pipeline.schema_variants import SchemaVariant

DROPPED = (
    "kafka_split",
    "kafka_messages",
    "kafka_dead_letters",
    "kafka_events",
    "kafka_judge",
    "kafka_judged",
    "kafka_lines",
)
"""What is made, from the near end to the far one; none of it holds rows."""

_REQUIRED = ("v", "id", "ts", "mono", "boot", "seq", "name", "origin")
_TYPES = {"v": "Int64", "ts": "Int64", "mono": "Int64", "seq": "Int64", "rank": "Int64", "pid": "Int64"}
_FLAT = tuple(name for name in ENVELOPE_FIELDS if name != "attrs")
_INT32_MAX = 2**31 - 1
_MOST_CONSUMERS = 64
# A collector's message has at most about 256 KiB before compression: 128 MiB a block at most.
_BLOCK_MESSAGES = 512

_LENGTHS = {
    "id": (3, 256),
    "boot": (1, 128),
    "engine_id": (0, 256),
    "group": (0, 256),
    "host": (0, 256),
    "request_id": (0, 1024),
    "external_id": (0, 1024),
    "transfer_id": (0, 1024),
}
_PATTERNS = {
    "name": "^[a-z][a-z_]*([.][a-z][a-z_]*)+$",
    "trace_id": "^([0-9a-f]{32})?$",
    "span_id": "^([0-9a-f]{16})?$",
}
_RANGES = {
    "v": (1, CONTRACT_VERSION),
    "ts": (0, None),
    "mono": (0, None),
    "seq": (0, None),
    "rank": (-1, _INT32_MAX),
    "pid": (0, _INT32_MAX),
}


class Ingest(StrEnum):
    """Who reads Kafka."""

    CONSUMER = "consumer"
    """`falseok run --kafka`, any number of them."""
    KAFKA_ENGINE = "kafka-engine"
    """The ClickHouse server itself."""


@dataclass(frozen=True)
class KafkaEngine:
    """Where the server finds the events. Names are put into text as literals. Raises `MigrationError` when made."""

    brokers: Sequence[str]
    topics: Sequence[str]
    group: str
    consumers: int = 1
    """Consumers of each server; more than the topics have partitions do nothing."""

    def __post_init__(self) -> None:
        """Lists are joined by commas, so no name holds one."""
        for what, names in (("broker", self.brokers), ("topic", self.topics), ("group", [self.group])):
            if not names or any(not name or "," in name for name in names):
                raise MigrationError(f"{', '.join(names) or 'nothing'} does not name a {what}.")
        if not 1 <= self.consumers <= _MOST_CONSUMERS:
            raise MigrationError(
                f"{self.consumers} is not a number of consumers from 1 to {_MOST_CONSUMERS}."
            )

    def statements(self, variant: SchemaVariant) -> list[str]:
        """What makes it, in order; running it again changes nothing until `drop_statements` ran."""
        text = files("falseok_pipeline").joinpath("ingest", "kafka_engine.sql").read_text(encoding="utf-8")
        filled = Template(text).substitute(
            on_cluster=on_cluster(variant),
            required=_names(_REQUIRED),
            known=_names(ENVELOPE_FIELDS),
            integers=_names(_TYPES),
            tuple_types=", ".join(f"`{name}` {_TYPES.get(name, 'String')}" for name in _FLAT),
            ranges=",\n        ".join(_range_checks()),
            event_columns=", ".join(_column(name) for name in _FLAT),
            max_line_bytes=MAX_LINE_BYTES,
            version=CONTRACT_VERSION,
            brokers=literal(",".join(self.brokers)),
            topics=literal(",".join(self.topics)),
            group=literal(self.group),
            consumers=self.consumers,
            block_messages=_BLOCK_MESSAGES,
        )
        return split_statements(filled)


def drop_statements(variant: SchemaVariant) -> list[str]:
    """What takes it away again. No row is lost: how far was read is kept by Kafka, under the group's name."""
    return [f"DROP TABLE IF EXISTS {name}{on_cluster(variant)} SYNC" for name in DROPPED]


def on_cluster(variant: SchemaVariant) -> str:
    """The clause, with a blank before it, or nothing."""
    return f" ON CLUSTER `{variant.cluster}`" if variant.cluster else ""


def literal(text: str) -> str:
    """The text as a string of ClickHouse's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _names(names: Sequence[str] | dict[str, str]) -> str:
    return ", ".join(literal(name) for name in names)


def _column(name: str) -> str:
    """The table's default of `rank` is -1, that of the extraction 0: a worker of rank 0 is something else."""
    if name == "rank":
        return "if(JSONHas(line, 'rank'), event.rank, -1) AS rank"
    return f"event.`{name}` AS `{name}`"


def _range_checks() -> list[str]:
    """For each field an expression that is its name where the value is none that the contract allows."""
    checks = []
    for name, (least, most) in _RANGES.items():
        above = f" OR extracted.`{name}` > {most}" if most is not None else ""
        checks.append(f"if(extracted.`{name}` < {least}{above}, {literal(name)}, '')")
    for name, (shortest, longest) in _LENGTHS.items():
        length = f"lengthUTF8(extracted.`{name}`)"
        below = f"{length} < {shortest} OR " if shortest else ""
        checks.append(f"if({below}{length} > {longest}, {literal(name)}, '')")
    for name, pattern in _PATTERNS.items():
        checks.append(f"if(NOT match(extracted.`{name}`, {literal(pattern)}), {literal(name)}, '')")
    origins = ", ".join(literal(str(origin)) for origin in Origin)
    checks.append(f"if(extracted.origin NOT IN ({origins}), 'origin', '')")
    checks.append("if(lengthUTF8(extracted.name) > 64, 'name', '')")
    return checks
