"""Messages of every bad kind among good ones, by the hundred thousand: each good line stored, each bad one buried."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.collector.waiting import until
from tests.kafka.broker import Broker
from tests.kafka.filling import send_values, source_of
from tests.pipeline.hostile import good_line, hostile_lines

from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.service import Service

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(3_600),
]
GOOD_IN_A_HUNDRED = 40
KINDS = 50_000
"""Different bad lines; with more messages they come again, at other places."""


@pytest.mark.parametrize("messages", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_fuzzed_messages_stop_nothing(
    broker: Broker, topics: tuple[str, str], tmp_path: Path, messages: int
) -> None:
    """As many events as good lines, as many dead letters as bad ones, each with a reason; and the pipeline is alive."""
    dice = random.Random(20261201)
    bad = hostile_lines(dice, KINDS)
    counts = {"good": 0, "bad": 0, "blank": 0}

    def values() -> Iterator[tuple[str, bytes, bytes]]:
        for _ in range(messages):
            lines = []
            for _ in range(dice.choice((1, 1, 1, 2, 5))):
                if dice.randrange(100) < GOOD_IN_A_HUNDRED:
                    counts["good"] += 1
                    lines.append(good_line("fuzz", counts["good"]))
                elif dice.randrange(50):
                    counts["bad"] += 1
                    lines.append(bad[dice.randrange(KINDS)])
                else:
                    counts["blank"] += 1
                    lines.append(b"")
            end = b"\n" if dice.random() < 0.9 or not lines[-1] else b""
            yield topics[0], b"key-%d" % dice.randrange(32), b"\n".join(lines) + end

    send_values(broker, values(), linger_ms=20)
    with Service.open(
        DataDirectory(tmp_path), source=lambda: source_of(broker, topics, "fuzz"), serve_queries=False
    ) as service:
        expected = counts["good"] + counts["bad"]

        def all_dealt_with() -> bool:
            statistics = service.run_once()
            return (
                statistics.events_stored + statistics.dead_letters >= expected and not statistics.lag_messages
            )

        until(all_dealt_with, seconds=1_500)
        statistics = service.statistics
        (events,) = service.store.query(
            "SELECT uniqExact(id) AS n, min(seq) AS least, max(seq) AS most FROM events"
        )
        (letters,) = service.store.query(
            "SELECT count() AS n, countIf(reason = '' OR message = '') AS unexplained, uniqExact(reason) AS reasons "
            "FROM dead_letters"
        )
        # It goes on: what comes now is stored like before.
        send_values(broker, [(topics[0], b"k", good_line("after", 1) + b"\n")])
        until(lambda: service.run_once().events_stored > statistics.events_stored)
    assert (counts["good"], counts["bad"], counts["blank"]) == (
        statistics.events_stored,
        statistics.dead_letters,
        statistics.blank_lines,
    )
    assert (counts["good"], 1, counts["good"]) == (events["n"], events["least"], events["most"])
    assert (counts["bad"], 0) == (letters["n"], letters["unexplained"])
    assert letters["reasons"] >= 8
