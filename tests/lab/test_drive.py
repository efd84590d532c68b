"""A drive against stand-in engines behind the real router."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.lab.serving import served
from tests.lab.stand_in_cache import Progress
from tests.lab.stand_in_engine import Engine

from falseok_lab.answers import Answer, read
from falseok_lab.drive import DriveSettings, agreement, drive, drive_direct
from falseok_lab.hop import sent_nowhere
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


def test_a_trace_context_is_sent_and_kept(state: PairState) -> None:
    """One of its own for each request, valid, and noted with the answer."""
    answers = drive(state, DriveSettings(requests=2, traceparent=True, n=2))
    parents = [answer.traceparent for answer in answers]
    assert 2 == len(set(parents))
    assert all(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", parent) for parent in parents)
    assert [2, 2] == [answer.choices for answer in answers]


def test_decode_can_be_sent_to_where_nobody_answers(state: PairState) -> None:
    """Prefill has computed its part; decode is given another engine and a closed port, and the rest as offered."""
    [answer] = drive(state, DriveSettings(requests=1, unreachable_prefill=True))
    assert (200, True) == (answer.status, answer.content.endswith(" remote"))
    params = {"remote_block_ids": [[1, 2]], "remote_engine_id": "p"}
    body = {"prompt": "hello"}
    with served(Engine("prefill").app()) as prefill, httpx.Client(trust_env=False) as client:
        sent = sent_nowhere(client, prefill, "completions", body, {"x-request-id": "id-1"})
        with pytest.raises(httpx.HTTPStatusError):
            sent_nowhere(client, prefill, "completions", {"prompt": "fail prefill"}, {"x-request-id": "id-1"})
    assert body | {"kv_transfer_params": params | {"remote_engine_id": "p-gone", "remote_port": 9}} == sent


def test_a_prefill_that_cannot_be_asked_is_an_answer_too(state: PairState, settings: PairSettings) -> None:
    """As when the router is gone."""
    down(settings.name, settings.data, Progress())
    [answer] = drive(state, DriveSettings(requests=1, unreachable_prefill=True))
    assert (0, True) == (answer.status, "prefill could not be asked" in answer.error)


def test_a_router_that_is_gone_is_an_answer_too(
    state: PairState, settings: PairSettings, tmp_path: Path
) -> None:
    """Nothing is raised: status 0 is what the client saw."""
    down(settings.name, settings.data, Progress())
    answers = drive(state, DriveSettings(requests=2))
    assert [0, 0] == [answer.status for answer in answers]
