"""Who fills the store's tables from Kafka, as `falseok schema` is told: our own consumer, or the server's Kafka engine."""

from typing import Annotated

import typer
from rich.text import Text

from falseok.consoles import progress
from falseok.service_settings import kafka_settings, read_service_settings
from falseok_pipeline.errors import MigrationError
from falseok_pipeline.kafka_engine import Ingest, KafkaEngine, drop_statements
from falseok_pipeline.schema_variants import SchemaVariant

IngestOption = Annotated[
    Ingest | None,
    typer.Option(
        "--ingest",
        help="kafka-engine: the server itself reads Kafka (docs/kafka.md). consumer: it no longer does "
        "[default: as it is].",
    ),
]
ConsumersOption = Annotated[
    int,
    typer.Option(
        "--kafka-consumers", metavar="N", min=1, max=64, help="Consumers of each server's Kafka engine."
    ),
]


def ingest_statements(
    ingest: Ingest | None, consumers: int, variant: SchemaVariant, *, server: bool
) -> list[str]:
    """What to run after the migrations; none without the option. Nothing that is dropped holds rows.

    Raises `MigrationError` for the embedded store, and `CliError` for Kafka settings that cannot be followed.
    """
    if ingest is None:
        return []
    if not server:
        raise MigrationError(
            "The embedded store cannot read Kafka by itself. Name a server with --store or FALSEOK_STORE_URL, or use "
            "`falseok run --kafka`."
        )
    dropped = drop_statements(variant)
    if ingest is Ingest.CONSUMER:
        return dropped
    kafka, settings = kafka_settings(), read_service_settings()
    if kafka.kafka_security_protocol != "PLAINTEXT":
        note = (
            f"FALSEOK_KAFKA_SECURITY_PROTOCOL is {kafka.kafka_security_protocol}: put protocol, user, password and "
            "certificates into the <kafka> section of the server's configuration; statements show them to everybody."
        )
        progress().print(Text(note), soft_wrap=True)
    engine = KafkaEngine(
        kafka.kafka_bootstrap_servers.replace(" ", "").split(","),
        (kafka.kafka_topic, kafka.kafka_engines_topic),
        # Not our own consumers' group: its members would take partitions from one another.
        f"{settings.kafka_group}.clickhouse",
        consumers,
    )
    return [*dropped, *engine.statements(variant)]
