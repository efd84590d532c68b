"""A drive against stand-in engines behind the real router."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.stand_in_cache import Progress

from falseok_lab.answers import Answer, read
from falseok_lab.drive import DriveSettings, agreement, drive, drive_direct, request_body
from falseok_lab.pair import PairSettings, PairState, down, up


@pytest.fixture
def state(settings: PairSettings, progress: Progress) -> Iterator[PairState]:
    """A running pair of stand-ins."""
    yield up(settings, progress)
    down(settings.name, settings.data, progress)


def test_a_drive_takes_every_path_and_keeps_every_answer(state: PairState) -> None:
    """Chats and completions, streamed and whole, in equal parts; ids in order; all in the client log."""
    heard: list[Answer] = []
    answers = drive(state, DriveSettings(requests=8), heard.append)
    assert [f"pair-r1-{index:04d}" for index in range(8)] == [answer.external_id for answer in answers]
    assert {(200, "")} == {(answer.status, answer.error) for answer in answers}
    assert all(answer.content.endswith(" remote") for answer in answers)
    paths = Counter((answer.endpoint, answer.stream) for answer in answers)
    assert (
        dict.fromkeys([("chat", False), ("chat", True), ("completions", False), ("completions", True)], 2)
        == paths
    )
    assert heard == read(state.client_log)
    assert sorted(heard, key=lambda answer: answer.index) == answers


def test_asking_decode_alone_uses_the_same_prompts_and_a_salt_of_its_own(state: PairState) -> None:
    """The second drive is a run of its own with other prompts; the direct one counts to the last run."""
    first = drive(state, DriveSettings(requests=2))
    second = drive(state, DriveSettings(requests=2, run=None))
    direct = drive_direct(state, DriveSettings(requests=2))
    assert (["r1", "r1"], ["r2", "r2"]) == ([one.run for one in first], [one.run for one in second])
    assert set() == {one.content for one in first} & {one.content for one in second}
    assert ["pair-r2-direct-0000", "pair-r2-direct-0001"] == [one.external_id for one in direct]
    assert all(one.direct and one.content.endswith(" local") for one in direct)
    expected = [one.content.replace(" remote", " local") for one in second]
    assert expected == [one.content for one in direct]
    assert {one.external_id: False for one in second} == agreement(second, direct)


def test_the_same_run_asks_the_same() -> None:
    """A request is decided by run and number alone, unless a seed is given."""
    settings = DriveSettings()
    assert request_body(settings, 3, "r1", "tiny") == request_body(settings, 3, "r1", "tiny")
    assert request_body(settings, 3, "r1", "tiny") != request_body(settings, 3, "r2", "tiny")
    seeded = DriveSettings(seed=1)
    assert request_body(seeded, 3, "r1", "tiny") == request_body(seeded, 3, "r2", "tiny")


@pytest.mark.parametrize(
    ("settings", "streams", "chats"),
    [
        pytest.param(DriveSettings(stream="always", endpoint="chat"), 4, 4, id="streamed chats"),
        pytest.param(DriveSettings(stream="never", endpoint="completions"), 0, 0, id="whole completions"),
        pytest.param(DriveSettings(), 2, 2, id="mixed"),
    ],
)
def test_streams_and_endpoints_can_be_chosen(settings: DriveSettings, streams: int, chats: int) -> None:
    """Of four requests."""
    bodies = [request_body(settings, index, "r1", "tiny") for index in range(4)]
    assert (streams, chats) == (
        sum("stream" in one for one in bodies),
        sum("messages" in one for one in bodies),
    )


def test_a_router_that_is_gone_is_an_answer_too(
    state: PairState, settings: PairSettings, tmp_path: Path
) -> None:
    """Nothing is raised: status 0 is what the client saw."""
    down(settings.name, settings.data, Progress())
    answers = drive(state, DriveSettings(requests=2))
    assert [0, 0] == [answer.status for answer in answers]
