"""Puts the service of `falseok run` together: where events come from, and where they are stored."""

import dataclasses
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from falseok.entry import installed_version
from falseok.service_settings import ServiceSettings, kafka_client, kafka_settings
from falseok.store_choice import open_server
from falseok_pipeline.clock import now_micros
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.server_store import ServerAddress
from falseok_pipeline.service import Service, usual_spools
from falseok_pipeline.sources import Source
from falseok_pipeline.sources.batch_building import STANDARD
from falseok_pipeline.sources.kafka_messages import Decoder, lines_of
from falseok_pipeline.sources.offsets import Offsets
from falseok_pipeline.sources.otlp_records import lines_of_records
from falseok_pipeline.sources.spool import SpoolDirectory, SpoolSource
from falseok_pipeline.writer import ClosableSink, EventSink

NO_TOPIC = "none"


@dataclasses.dataclass(frozen=True)
class Reading:
    """What to read, as the command line says it."""

    kafka: bool = False
    spools: tuple[Path, ...] = ()
    delete_consumed: bool = False
    batch_bytes: int = STANDARD.size_bytes


def open_service(
    directory: DataDirectory, reading: Reading, address: ServerAddress | None, settings: ServiceSettings
) -> Service:
    """The service, ready to run. Raises `PipelineError` and `CliError`; whatever was opened is then closed."""
    limits = dataclasses.replace(STANDARD, size_bytes=reading.batch_bytes)
    source: Callable[[], Source] | None = None
    sink: Callable[[EventSink], ClosableSink] | None = None
    if reading.kafka:
        source, sink = _kafka(settings, limits.size_bytes)
    spools = named_spools(reading.spools, delete_consumed=reading.delete_consumed)
    if address is None:
        return Service.open(
            directory, version=installed_version(), spools=spools, source=source, sink=sink, limits=limits
        )
    with ExitStack() as undo:
        if source is None:
            # The offsets of spools lie in the data directory: two runs must not share them.
            undo.enter_context(directory.claim("run", now_micros(), version=installed_version()))
            source = lambda: SpoolSource(  # noqa: E731 - as the other one, made when the store is open
                spools or (lambda: usual_spools(directory)),
                Offsets(directory.offsets_file),
                lambda: now_micros() / 1e6,
                limits,
            )
        service = Service.over(open_server(address), source, sink=sink)
        service.hold(undo.pop_all())
    return service


def named_spools(
    directories: Iterable[Path], *, delete_consumed: bool
) -> Callable[[], list[SpoolDirectory]] | None:
    """The spools of the command line, or `None` for those of the data directory.

    A named spool is somebody else's: its segments stay unless their deletion was asked for.
    """
    listed = [SpoolDirectory(path.absolute(), delete_consumed=delete_consumed) for path in directories]
    return (lambda: listed) if listed else None


def topics_read(settings: ServiceSettings) -> dict[str, Decoder]:
    """Topics that `--kafka` reads, each with what turns a message into lines. Raises `CliError`."""
    kafka = kafka_settings()
    topics: dict[str, Decoder] = {kafka.kafka_topic: lines_of, kafka.kafka_engines_topic: lines_of}
    if settings.kafka_otlp_topic:
        topics[settings.kafka_otlp_topic] = lines_of_records
    return topics


def _kafka(
    settings: ServiceSettings, batch_bytes: int
) -> tuple[Callable[[], Source], Callable[[EventSink], ClosableSink] | None]:
    # Imported late: only this way of running needs the Kafka library.
    from falseok_pipeline.dead_letter_topic import DeadLetterTopic  # noqa: PLC0415
    from falseok_pipeline.sources.kafka import KafkaSource, Subscription  # noqa: PLC0415

    kafka = kafka_settings()
    client = kafka_client(kafka)
    topics = topics_read(settings)

    def source() -> Source:
        subscription = Subscription(
            topics,
            frozenset({kafka.kafka_engines_topic}),
            settings.kafka_group,
            settings.kafka_instance_id,
            settings.kafka_session_timeout_seconds,
        )
        return KafkaSource(client, subscription, dataclasses.replace(STANDARD, size_bytes=batch_bytes))

    if settings.kafka_dead_letter_topic == NO_TOPIC:
        return source, None
    return source, lambda store: DeadLetterTopic(store, client, settings.kafka_dead_letter_topic)
