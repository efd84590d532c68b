"""A real Apache Kafka broker on loopback, for tests: one KRaft node out of Maven Central's packages.

Its packages are fetched once with Maven and kept below FALSEOK_LAB_CACHE (default `.lab-cache`). It listens in plain
text, with SASL and with TLS, on ports of its own, and ends only its own process.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VERSION = "4.3.1"
USER, PASSWORD = "falseok", "open sesame"
_KEYSTORE_PASSWORD = "changeit"  # noqa: S105 - of a certificate that lives as long as the test
_START_SECONDS = 240
_STOP_SECONDS = 30
_HEAP = "-Xmx384m"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>falseok.test</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version>
    </dependency>
  </dependencies>
</project>
"""


def jars() -> Path:
    """The directory of the broker's packages; fetches them when they are not there yet."""
    cache = Path(os.environ.get("FALSEOK_LAB_CACHE") or ".lab-cache").absolute()
    directory = cache / f"kafka-{VERSION}"
    if directory.is_dir():
        return directory
    fetching = cache / f"kafka-{VERSION}.{os.getpid()}"
    fetching.mkdir(parents=True)
    (fetching / "pom.xml").write_text(_POM, encoding="utf-8")
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={fetching}"]
    subprocess.run(command, cwd=fetching, check=True, timeout=600)
    fetching.rename(directory)
    return directory


class Broker:
    """One node with its data in `directory`. Survives `stop` and `kill`: `start` brings it back with what it held."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.sasl_port, self.tls_port, controller_port = free_ports(4)
        self.cafile = directory / "broker.pem"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._make_certificate()
        self._properties = directory / "server.properties"
        self._properties.write_text(self._configuration(controller_port), encoding="utf-8")
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties), "-S", scram]
        subprocess.run(self._java(*tool), check=True, timeout=120, stdout=subprocess.DEVNULL)

    @property
    def servers(self) -> str:
        """The plain-text listener."""
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_servers(self) -> str:
        """The listener that asks for USER and PASSWORD, by PLAIN or SCRAM-SHA-256."""
        return f"127.0.0.1:{self.sasl_port}"

    @property
    def tls_servers(self) -> str:
        """The listener with a certificate that `cafile` vouches for."""
        return f"127.0.0.1:{self.tls_port}"

    def start(self) -> None:
        """Start the node and wait until it answers as a broker."""
        log = (self.directory / "broker.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)), stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._log()
            assert time.monotonic() < deadline, self._log()
            time.sleep(0.2)

    def ensure_started(self) -> None:
        """Start the node unless it runs."""
        if self._process is None:
            self.start()

    def stop(self) -> None:
        """Ask the node to end, as an operator would; make it, when it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End the node as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The node stands still: connections are accepted by the system, and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def create_topics(self, *names: str, partitions: int = 3, configs: dict[str, str] | None = None) -> None:
        """Make topics, as an operator would."""
        from kafka.admin import NewTopic  # noqa: PLC0415 - as above

        from kafka import KafkaAdminClient  # noqa: PLC0415 - plain tests need no Kafka library

        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        try:
            admin.create_topics(
                [NewTopic(name, partitions, 1, topic_configs=configs) for name in names],
                wait_for_metadata=True,
            )
        finally:
            admin.close()

    def read(self, topic: str) -> list[Any]:
        """Every message of a topic from the beginning, in the order of each partition."""
        from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415 - as above

        consumer = KafkaConsumer(bootstrap_servers=self.servers, enable_auto_commit=False)
        try:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            found: list[Any] = []
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                for messages in consumer.poll(timeout_ms=1_000).values():
                    found += messages
            return found
        finally:
            consumer.close()

    def _answers(self) -> bool:
        from kafka.errors import KafkaError  # noqa: PLC0415 - as above

        from kafka import KafkaAdminClient  # noqa: PLC0415 - as above

        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            admin = KafkaAdminClient(bootstrap_servers=self.servers, bootstrap_timeout_ms=2_000)
        except (OSError, KafkaError):
            return False
        try:
            admin.list_topics()
        except KafkaError:
            return False
        finally:
            admin.close()
        return True

    def _make_certificate(self) -> None:
        names = "SAN=ip:127.0.0.1,dns:localhost"
        make = ["-genkeypair", "-alias", "broker", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", names]
        make += ["-ext", "bc:c=ca:true", "-validity", "30"]
        for action in (make, ["-exportcert", "-rfc", "-alias", "broker", "-file", str(self.cafile)]):
            store = ["-keystore", str(self.directory / "broker.p12"), "-storepass", _KEYSTORE_PASSWORD]
            subprocess.run(["keytool", *action, *store], check=True, timeout=60, capture_output=True)

    def _configuration(self, controller_port: int) -> str:
        listeners = {
            "PLAINTEXT": self.port,
            "SASL_PLAINTEXT": self.sasl_port,
            "SSL": self.tls_port,
            "CONTROLLER": controller_port,
        }
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
        lines = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": ",".join(
                f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in listeners
            ),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{plain} required user_{USER}="{PASSWORD}";',
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{scram} required;",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": self.directory / "broker.p12",
            "ssl.keystore.password": _KEYSTORE_PASSWORD,
            "log.dirs": self.directory / "data",
            "num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            "group.min.session.timeout.ms": 1_000,
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    @staticmethod
    def _java(*arguments: str) -> list[str]:
        return ["java", _HEAP, "-XX:+UseSerialGC", "-cp", f"{jars()}/*", *arguments]

    def _log(self) -> str:
        return (self.directory / "broker.log").read_text(encoding="utf-8", errors="replace")[-4_000:]


@contextmanager
def running_broker(directory: Path) -> Iterator[Broker]:
    """A started broker that is ended afterwards."""
    for program in ("java", "keytool", "mvn"):
        assert shutil.which(program), f"{program} is not there: see `make test-kafka`"
    broker = Broker(directory)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def free_ports(number: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(server.getsockname()[1]) for server in sockets]
    for server in sockets:
        server.close()
    return ports
