"""Pipelines as processes of their own that are killed and started again, and a sender that makes trouble as it sends."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.collector.waiting import until
from tests.kafka.broker import Broker
from tests.pipeline.http_front import RunningFront

from falseok_collector.sinks.kafka_messages import messages_of

SESSION_SECONDS = 2.0
"""The brokers of the tests allow it; a pipeline that vanished is then soon replaced."""


class Pipelines:
    """`falseok run --kafka --only store`, several times. A context manager: it ends what still runs."""

    def __init__(
        self,
        broker: Broker,
        topics: tuple[str, str],
        front: RunningFront,
        directory: Path,
        *,
        group: str,
        named: bool,
    ) -> None:
        """`named` pipelines keep their name over a restart and get their partitions back at once."""
        self._directory = directory
        self._named = named
        self._processes: list[subprocess.Popen[bytes] | None] = []
        self._environment = {
            **os.environ,
            "FALSEOK_KAFKA_BOOTSTRAP_SERVERS": broker.servers,
            "FALSEOK_KAFKA_TOPIC": topics[0],
            "FALSEOK_KAFKA_ENGINES_TOPIC": topics[1],
            "FALSEOK_KAFKA_DEAD_LETTER_TOPIC": topics[0].replace(".events.v1", ".dead"),
            "FALSEOK_KAFKA_GROUP": group,
            "FALSEOK_KAFKA_SESSION_TIMEOUT_SECONDS": str(SESSION_SECONDS),
            "FALSEOK_STORE_URL": front.store_url,
        }
        self.kills = 0

    def start(self, number: int) -> None:
        """Start one, by its number; numbers are given in order."""
        environment = dict(self._environment)
        if self._named:
            environment["FALSEOK_KAFKA_INSTANCE_ID"] = f"pipeline-{number}"
        command = [
            sys.executable,
            "-m",
            "falseok",
            "run",
            "--kafka",
            "--only",
            "store",
            "--batch-bytes",
            "100000",
        ]
        log = (self._directory / f"pipeline-{number}.log").open("ab")
        with log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        self._processes[number : number + 1] = [process]

    def kill(self, number: int) -> None:
        """End one as a power cut would."""
        process = self._processes[number]
        assert process is not None
        assert process.poll() is None, self.log(number)
        process.kill()
        process.wait()
        self._processes[number] = None
        self.kills += 1

    def end(self, number: int) -> None:
        """End one as an operator would; it has to leave in an orderly way."""
        process = self._processes[number]
        assert process is not None
        process.terminate()
        assert 0 == process.wait(30), self.log(number)
        self._processes[number] = None

    def log(self, number: int) -> str:
        """The end of what one has printed."""
        return (self._directory / f"pipeline-{number}.log").read_text(errors="replace")[-3_000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process is not None:
                process.kill()
                process.wait()


class Sender:
    """Sends messages steadily from a thread, and keeps count. Duplicates some, swaps some, holds some back to the end."""

    def __init__(
        self,
        broker: Broker,
        topics: tuple[str, str],
        lines: Sequence[bytes],
        bad_lines: Sequence[bytes],
        dice: random.Random,
    ) -> None:
        self._broker = broker
        # The recorded incident has two engines; with more keys every partition has its share.
        self.messages = [
            (m.topic, b"engine-%d" % dice.randrange(40), m.value) for m in messages_of(lines, *topics)
        ]
        # Bad lines stand alone and in the middle of good messages.
        for bad in bad_lines:
            at = dice.randrange(len(self.messages))
            topic, key, value = self.messages[at]
            if dice.random() < 0.5:
                self.messages.insert(at, (topics[0], b"poison", bad + b"\n"))
            else:
                self.messages[at] = (topic, key, value + bad + b"\n")
        self.messages += [dice.choice(self.messages) for _ in range(len(self.messages) // 10)]
        late = [
            self.messages.pop(dice.randrange(len(self.messages))) for _ in range(len(self.messages) // 20)
        ]
        for at in range(0, len(self.messages) - 20, 20):
            window = self.messages[at : at + 20]
            dice.shuffle(window)
            self.messages[at : at + 20] = window
        self.messages += late

    def send(self, seconds: float) -> threading.Thread:
        """Spread all messages over so many seconds; the thread ends when every one is confirmed."""
        thread = threading.Thread(target=self._send, args=(seconds,), name="sender")
        thread.start()
        return thread

    def _send(self, seconds: float) -> None:
        from kafka.errors import KafkaError  # noqa: PLC0415 - plain tests need no Kafka library

        from kafka import KafkaProducer  # noqa: PLC0415 - as above

        with ExitStack() as held:
            producer = KafkaProducer(
                bootstrap_servers=self._broker.servers, acks="all", linger_ms=5, delivery_timeout_ms=120_000
            )
            held.callback(producer.close)
            pause = seconds / len(self.messages)
            waiting: list[tuple[Any, tuple[str, bytes, bytes]]] = []
            began = time.monotonic()
            for number, (topic, key, value) in enumerate(self.messages):
                waiting.append((producer.send(topic, key=key, value=value), (topic, key, value)))
                time.sleep(max(0.0, began + number * pause - time.monotonic()))
            producer.flush()
            for future, (topic, key, value) in waiting:
                try:
                    future.get(timeout=120)
                except KafkaError:
                    producer.send(topic, key=key, value=value).get(timeout=120)


def consumed(broker: Broker, topics: Iterable[str], group: str, *, seconds: float = 120) -> None:
    """Return when the group has committed everything that is in the topics."""
    from kafka.structs import TopicPartition  # noqa: PLC0415 - plain tests need no Kafka library

    from kafka import KafkaAdminClient, KafkaConsumer  # noqa: PLC0415 - as above

    consumer = KafkaConsumer(bootstrap_servers=broker.servers, enable_auto_commit=False)
    admin = KafkaAdminClient(bootstrap_servers=broker.servers)
    try:
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in consumer.partitions_for_topic(topic)
        ]
        ends = {partition: end for partition, end in consumer.end_offsets(partitions).items() if end}

        def all_committed() -> bool:
            time.sleep(0.3)
            committed = admin.list_group_offsets([group]).get(group, {})
            return all(
                partition in committed and committed[partition].offset >= end
                for partition, end in ends.items()
            )

        until(all_committed, seconds=seconds)
    finally:
        admin.close()
        consumer.close()
