"""The topics of a fleet: which there should be, what is there, and making the one the other.

Topics that exist are left alone unless their change is asked for: their partitions and retention are decisions of
whoever runs the brokers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from falseok_pipeline.errors import SourceError
from kafka import KafkaAdminClient

DAY_MILLISECONDS = 24 * 60 * 60 * 1000
_REPLICAS = 3
_TIMEOUT_MILLISECONDS = 30_000


@dataclass(frozen=True)
class Topic:
    """A topic as it should be. `configs` are Kafka's topic configurations by name."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


class State(StrEnum):
    """Of one topic."""

    MISSING = "missing"
    CREATED = "created"
    DIFFERENT = "different"
    """It exists and differs from what it should be; left alone."""
    CHANGED = "changed"
    FINE = "fine"


@dataclass(frozen=True)
class TopicReport:
    """What is there, and what was done."""

    name: str
    state: State
    partitions: int
    replication_factor: int
    differences: tuple[str, ...] = ()
    """One sentence each, such as `retention.ms is 1000, should be 604800000`."""


def standard_topics(
    events: str, engines: str, dead_letters: str, *, partitions: int, retention_days: float
) -> tuple[Topic, ...]:
    """The three topics of a fleet (`architecture.md`): all events, the compacted engine configurations, dead letters."""
    retention = str(int(retention_days * DAY_MILLISECONDS))
    longer = str(int(max(30.0, retention_days) * DAY_MILLISECONDS))
    return (
        # A collector's message has at most about 256 KiB before compression, a single long event 1 MiB.
        Topic(events, partitions, {"retention.ms": retention, "max.message.bytes": str(4 * 1024 * 1024)}),
        Topic(engines, 1, {"cleanup.policy": "compact", "max.message.bytes": str(4 * 1024 * 1024)}),
        Topic(dead_letters, 1, {"retention.ms": longer, "max.message.bytes": str(16 * 1024 * 1024)}),
    )


def otlp_topic(name: str, *, partitions: int, retention_days: float) -> Topic:
    """The topic that OpenTelemetry Collectors write log records to."""
    return Topic(name, partitions, {"retention.ms": str(int(retention_days * DAY_MILLISECONDS))})


class TopicKeeper:
    """Compares and makes topics. A context manager."""

    def __init__(self, client: Mapping[str, Any], *, connect: Callable[..., Any] = KafkaAdminClient) -> None:
        """Connect. Raises `SourceError` when the brokers do not answer or do not let us in."""
        self._servers = ", ".join(client["bootstrap_servers"])
        try:
            self._admin = connect(**client, client_id="falseok-topics")
        except (KafkaError, OSError, AssertionError) as error:
            raise SourceError(
                f"Kafka does not answer at {self._servers}: {type(error).__name__}. Check "
                "FALSEOK_KAFKA_BOOTSTRAP_SERVERS and FALSEOK_KAFKA_SECURITY_PROTOCOL, and that the brokers are up."
            ) from error

    def status(self, wanted: Sequence[Topic]) -> list[TopicReport]:
        """What is there, in the order of `wanted`. Raises `SourceError`."""
        try:
            there = {
                found["name"]: found for found in self._admin.describe_topics() if not found.get("error_code")
            }
            return [self._compare(topic, there.get(topic.name)) for topic in wanted]
        except KafkaError as error:
            raise self._refused("describing topics", error) from error

    def apply(
        self, wanted: Sequence[Topic], *, replication_factor: int | None = None, alter: bool = False
    ) -> list[TopicReport]:
        """Create what is missing; with `alter` also change what differs (partitions can only grow).

        `replication_factor` defaults to 3, or to the number of brokers where there are fewer. Raises `SourceError`.
        """
        reports = self.status(wanted)
        replicas = replication_factor or min(_REPLICAS, self._brokers())
        done = []
        for topic, report in zip(wanted, reports, strict=True):
            try:
                if report.state is State.MISSING:
                    done.append(self._create(topic, replicas))
                elif report.state is State.DIFFERENT and alter:
                    done.append(self._alter(topic, report))
                else:
                    done.append(report)
            except KafkaError as error:
                raise self._refused(f"topic {topic.name}", error) from error
        return done

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _brokers(self) -> int:
        try:
            return len(self._admin.describe_cluster()["brokers"])
        except KafkaError as error:
            raise self._refused("describing the cluster", error) from error

    def _compare(self, topic: Topic, found: Mapping[str, Any] | None) -> TopicReport:
        if found is None:
            return TopicReport(topic.name, State.MISSING, topic.partitions, 0)
        partitions = found["partitions"]
        differences = [
            f"{name} is {has}, should be {value}"
            for name, value in topic.configs.items()
            if (has := self._configs(topic).get(name)) != value
        ]
        if len(partitions) < topic.partitions:
            differences.insert(0, f"it has {len(partitions)} partitions, should have {topic.partitions}")
        return TopicReport(
            topic.name,
            State.DIFFERENT if differences else State.FINE,
            len(partitions),
            min((len(partition["replica_nodes"]) for partition in partitions), default=0),
            tuple(differences),
        )

    def _configs(self, topic: Topic) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
        answer = self._admin.describe_configs([resource], config_filter="all")
        return {name: str(config["value"]) for name, config in answer["topic"][topic.name].items()}

    def _create(self, topic: Topic, replicas: int) -> TopicReport:
        configs = dict(topic.configs)
        if replicas >= _REPLICAS:
            configs["min.insync.replicas"] = "2"
        options = {"num_partitions": topic.partitions, "replication_factor": replicas, "configs": configs}
        self._admin.create_topics(
            {topic.name: options}, timeout_ms=_TIMEOUT_MILLISECONDS, wait_for_metadata=True
        )
        return TopicReport(topic.name, State.CREATED, topic.partitions, replicas)

    def _alter(self, topic: Topic, report: TopicReport) -> TopicReport:
        if report.partitions < topic.partitions:
            self._admin.create_partitions({topic.name: topic.partitions}, timeout_ms=_TIMEOUT_MILLISECONDS)
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name, dict(topic.configs))])
        return TopicReport(
            topic.name,
            State.CHANGED,
            max(report.partitions, topic.partitions),
            report.replication_factor,
            report.differences,
        )

    def _refused(self, what: str, error: KafkaError) -> SourceError:
        return SourceError(f"Kafka at {self._servers} refuses {what}: {type(error).__name__}: {error}")
