"""`falseok topics`: the topics of a fleet on Kafka."""

from typing import Annotated

import typer
from rich.text import Text

from falseok.consoles import results, write_json
from falseok.options import JsonOption
from falseok.plain_text import printable
from falseok.service_opening import NO_TOPIC
from falseok.service_settings import kafka_client, kafka_settings, read_service_settings
from falseok.typer_settings import SETTINGS
from falseok_pipeline.kafka_topics import State, Topic, TopicKeeper, TopicReport, otlp_topic, standard_topics

EXIT_MISSING = 1
app = typer.Typer(**SETTINGS)

PartitionsOption = Annotated[
    int,
    typer.Option(
        "--partitions",
        metavar="N",
        min=1,
        help="Partitions of the events' topic: most pipelines that can share it.",
    ),
]
RetentionOption = Annotated[
    float,
    typer.Option("--retention-days", metavar="DAYS", min=0.01, help="How long events are kept in the topic."),
]


@app.callback()
def topics() -> None:
    """Make and check the Kafka topics that the FALSEOK_KAFKA_* settings name."""


@app.command("apply", short_help="Create the topics that are missing.")
def apply(
    partitions: PartitionsOption = 12,
    retention_days: RetentionOption = 7.0,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            metavar="N",
            min=1,
            help="Replicas [default: 3, or the number of brokers if fewer].",
        ),
    ] = None,
    alter: Annotated[
        bool,
        typer.Option(
            "--alter", help="Change topics that exist and differ, too. A shorter retention deletes events."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create the topics that are missing; those that exist are left as they are, unless --alter is given.

    \b
    Examples:
      falseok topics apply
      FALSEOK_KAFKA_BOOTSTRAP_SERVERS=kafka-1:9092,kafka-2:9092 falseok topics apply --partitions 24
      falseok topics apply --retention-days 14 --alter --json
    """
    with TopicKeeper(kafka_client(kafka_settings())) as keeper:
        reports = keeper.apply(
            _wanted(partitions, retention_days), replication_factor=replication_factor, alter=alter
        )
    _show(reports, as_json=as_json)


@app.command("status", short_help="What is there, and how it differs.")
def status(
    partitions: PartitionsOption = 12, retention_days: RetentionOption = 7.0, as_json: JsonOption = False
) -> None:
    """Show the topics, and how they differ from what they should be. Exits with 1 when one is missing.

    \b
    Examples:
      falseok topics status
      falseok topics status --json
    """
    with TopicKeeper(kafka_client(kafka_settings())) as keeper:
        reports = keeper.status(_wanted(partitions, retention_days))
    _show(reports, as_json=as_json)
    if any(report.state is State.MISSING for report in reports):
        raise typer.Exit(EXIT_MISSING)


def _wanted(partitions: int, retention_days: float) -> list[Topic]:
    kafka, service = kafka_settings(), read_service_settings()
    wanted = standard_topics(
        kafka.kafka_topic,
        kafka.kafka_engines_topic,
        service.kafka_dead_letter_topic,
        partitions=partitions,
        retention_days=retention_days,
    )
    topics = [topic for topic in wanted if topic.name != NO_TOPIC]
    if service.kafka_otlp_topic:
        topics.append(
            otlp_topic(service.kafka_otlp_topic, partitions=partitions, retention_days=retention_days)
        )
    return topics


def _show(reports: list[TopicReport], *, as_json: bool) -> None:
    if as_json:
        write_json(reports)
        return
    for report in reports:
        layout = f"{report.partitions} partitions, {report.replication_factor or 'no'} replicas"
        results().print(Text(printable(f"{report.name}  {report.state}  {layout}")), soft_wrap=True)
        for difference in report.differences:
            results().print(Text(f"  {printable(difference)}"), soft_wrap=True)
    if any(report.state is State.DIFFERENT for report in reports):
        hint = "Topics that differ are left as they are; change them with: falseok topics apply --alter"
        results().print(hint, soft_wrap=True)
