"""`falseok run --kafka` as a process: events of a real collector in, incident and metrics out, embedded and with a server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from tests.collector.waiting import until
from tests.kafka.broker import Broker, free_ports
from tests.kafka.filling import recorded_lines, send, send_values
from tests.pipeline.http_front import RunningFront, running_front

from falseok_collector.sinks.otlp_records import record_of, resource_of

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def environment(broker: Broker, topics: tuple[str, str], tmp_path: Path) -> dict[str, str]:
    """Settings of a fleet of this test's own."""
    broker.create_topics(f"{topics[0]}.dead", f"{topics[0]}.otlp", partitions=2)
    return {
        **os.environ,
        "FALSEOK_DATA": str(tmp_path / "data"),
        "FALSEOK_KAFKA_BOOTSTRAP_SERVERS": broker.servers,
        "FALSEOK_KAFKA_TOPIC": topics[0],
        "FALSEOK_KAFKA_ENGINES_TOPIC": topics[1],
        "FALSEOK_KAFKA_DEAD_LETTER_TOPIC": f"{topics[0]}.dead",
        "FALSEOK_KAFKA_OTLP_TOPIC": f"{topics[0]}.otlp",
    }


@pytest.fixture
def front(tmp_path: Path) -> Iterator[RunningFront]:
    """An empty server."""
    (port,) = free_ports(1)
    with running_front(tmp_path / "shared", port) as running:
        yield running


def falseok(*arguments: str, environment: dict[str, str], exit_code: int = 0) -> str:
    """What the command prints on standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "falseok", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert exit_code == done.returncode, done.stderr
    return done.stdout


def test_once_reads_all_that_is_there_and_judges_it(
    broker: Broker, topics: tuple[str, str], environment: dict[str, str]
) -> None:
    """The embedded store behind Kafka: joining the group is waited for; a second time nothing is new."""
    send(broker, topics, recorded_lines())
    first = json.loads(falseok("run", "--kafka", "--once", "--json", environment=environment))
    assert [32] == [incident["affected"] for incident in first["incidents"]]
    second = json.loads(falseok("run", "--kafka", "--once", "--json", environment=environment))
    assert 0 == second["statistics"]["events_stored"]
    assert first["incidents"] == second["incidents"]


def test_events_that_came_through_an_opentelemetry_collector_are_the_same_incident(
    broker: Broker, topics: tuple[str, str], environment: dict[str, str]
) -> None:
    """Half of them as log records, half as lines, some as both: one incident with all its requests."""
    lines = recorded_lines()
    send(broker, topics, lines[: len(lines) // 2 + 40])
    resource = resource_of("boot")
    records = [record_of(line, resource) for line in lines[len(lines) // 2 :]]
    values = [encode_logs(records[at : at + 50]).SerializeToString() for at in range(0, len(records), 50)]
    send_values(broker, [(f"{topics[0]}.otlp", None, value) for value in [*values, b"not OTLP"]])
    found = json.loads(falseok("run", "--kafka", "--once", "--json", environment=environment))
    assert [32] == [incident["affected"] for incident in found["incidents"]]
    assert 1 == found["statistics"]["dead_letters"]
    (stored,) = json.loads(
        falseok("triage", "sql", "SELECT uniqExact(id) AS n FROM events", "--json", environment=environment)
    )
    assert len(lines) == stored["n"]


def test_pipelines_and_a_judge_share_a_server(
    broker: Broker, topics: tuple[str, str], environment: dict[str, str], front: RunningFront
) -> None:
    """Schema first, then two pipelines that only store; one judges; the other commands ask the same server."""
    environment["FALSEOK_STORE_URL"] = front.store_url
    falseok("run", "--kafka", "--only", "store", "--once", environment=environment, exit_code=2)
    falseok("schema", "status", environment=environment, exit_code=2)
    falseok("schema", "apply", environment=environment)
    assert "nothing was to be done" in falseok("schema", "apply", environment=environment)
    falseok("schema", "status", environment=environment)
    ports = free_ports(2)
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "falseok",
                "run",
                "--kafka",
                "--only",
                "store",
                "--metrics",
                f"127.0.0.1:{port}",
            ],
            env=environment,
            stderr=subprocess.PIPE,
        )
        for port in ports
    ]
    try:
        lines = recorded_lines(3)
        send(broker, topics, [*lines, b"not an event"])

        def stored() -> bool:
            return sum(metric(port, "falseok_pipeline_events_stored_total") for port in ports) >= len(lines)

        until(stored, seconds=60)
        assert 1 == sum(metric(port, "falseok_pipeline_dead_letters_total") for port in ports)
        until(lambda: not sum(metric(port, "falseok_pipeline_consumer_lag") for port in ports))
        assert 0 < sum(metric(port, "falseok_pipeline_event_delay_seconds_count") for port in ports)
    finally:
        for process in processes:
            process.terminate()
        ended = [process.communicate(timeout=60)[1].decode() for process in processes]
    assert [0, 0] == [process.returncode for process in processes], ended
    judged = json.loads(falseok("run", "--only", "judge", "--once", "--json", environment=environment))
    assert [96] == [incident["affected"] for incident in judged["incidents"]]
    asked = json.loads(falseok("triage", "incidents", "--json", environment=environment))
    assert [incident["id"] for incident in judged["incidents"]] == [incident["id"] for incident in asked]
    assert "INC-" in falseok("triage", "show", asked[0]["id"], environment=environment)


def metric(port: int, name: str) -> float:
    """The sum of a metric's samples, as Prometheus would scrape them; 0 while nobody answers."""
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    except httpx.HTTPError:
        return 0.0
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.split("{")[0].split()[0] == name)


def test_what_does_not_go_together_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    """With the way out in the message."""
    falseok("run", "--kafka", "--spool", str(tmp_path), environment=environment, exit_code=2)
    falseok("run", "--only", "judge", "--once", environment=environment, exit_code=2)
    wrong = {**environment, "FALSEOK_KAFKA_SECURITY_PROTOCOL": "TELEPATHY"}
    falseok("run", "--kafka", "--once", environment=wrong, exit_code=2)
