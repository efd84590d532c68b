"""One verdict an answer, however many engine requests it took, and none for KV that was not compared."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.pipeline.stories import Fleet, Story, corrupt, healthy

from falseok_collector.attributes import ApiResponse, SchedAdmit, SchedFinish
from falseok_pipeline.embedded import EmbeddedStore


def judged(store: EmbeddedStore, lines: list[bytes], columns: str) -> list[dict[str, Any]]:
    """The rows after these events."""
    store.insert_events(b"".join(line + b"\n" for line in lines))
    return store.query(f"SELECT {columns} FROM request_verdicts ORDER BY request_id")


def choice(fleet: Fleet, index: int, tell: Callable[[Fleet, int], list[bytes]]) -> list[bytes]:
    """One choice of an answer with `n`, without the answer: its engine request is named after its parent."""
    whole, choice_id = b'"chatcmpl-req-1-bbbbbbbb"', f'"{index}_chatcmpl-req-1-bbbbbbbb"'.encode()
    return [line.replace(whole, choice_id) for line in tell(fleet, 1) if b"remote_prefill" not in line]


def answer(fleet: Fleet, engine_request_ids: list[str], kv_transfer_in: str = "remote_prefill") -> bytes:
    """What the client got for all of them."""
    response = ApiResponse(
        http_status=200,
        choices=len(engine_request_ids),
        completion_tokens=32,
        engine_request_ids=engine_request_ids,
        kv_transfer_in=kv_transfer_in,
    )
    return fleet.decode.api.emit(
        fleet.tick(), response, external_id="req-1", request_id=engine_request_ids[0]
    )


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "no response seen"])
def test_the_worst_choice_judges_the_answer(store: EmbeddedStore, *, answered: bool) -> None:
    """With `n`, the client got one answer: one row, corrupt when one choice is, with both engine requests named."""
    fleet = Fleet()
    lines = [*fleet.configs(), *choice(fleet, 0, healthy), *choice(fleet, 1, corrupt)]
    both = [f"{index}_chatcmpl-req-1-bbbbbbbb" for index in (0, 1)]
    if answered:
        lines.append(answer(fleet, both))
    rows = judged(store, lines, "request_id, verdict, reason, children, engine_request_ids")
    assert [
        {
            "request_id": both[1],
            "verdict": "corrupt",
            "reason": "a_missing_kv",
            "children": 2,
            "engine_request_ids": both,
        }
    ] == rows


def local(fleet: Fleet, number: int) -> list[bytes]:
    """An engine request that asked for no remote KV."""
    story = Story(fleet, number)
    story.decode_event(fleet.decode.core, SchedAdmit(leg="local", prompt_tokens=9), transfer_id="")
    story.decode_event(fleet.decode.core, SchedFinish(leg="local", output_tokens=4), transfer_id="")
    return story.lines


def unseen(fleet: Fleet, number: int) -> list[bytes]:
    """A decode request of which only the admission was seen."""
    story = Story(fleet, number)
    story.admit()
    return story.lines


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ((local, unseen), "unobserved"),
        ((unseen, local), "unobserved"),
        ((local, healthy), "local"),
        ((healthy, unseen), "unobserved"),
        ((unseen, local, corrupt), "corrupt"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(tell.__name__ for tell in value),
)
def test_a_choice_nobody_saw_outweighs_those_that_are_fine(
    store: EmbeddedStore, choices: tuple[Callable[[Fleet, int], list[bytes]], ...], expected: str
) -> None:
    """Missing evidence is not health, nor is it "nothing was read"."""
    fleet = Fleet()
    told = [line for index, tell in enumerate(choices) for line in choice(fleet, index, tell)]
    names = [f"{index}_chatcmpl-req-1-bbbbbbbb" for index in range(len(choices))]
    told.append(answer(fleet, names, kv_transfer_in=""))
    assert [{"verdict": expected, "children": len(choices)}] == judged(
        store, [*fleet.configs(), *told], "verdict, children"
    )


def test_answers_of_one_client_id_stay_apart(store: EmbeddedStore) -> None:
    """Two requests are two rows, each its own only child."""
    fleet = Fleet()
    lines = [*fleet.configs(), *healthy(fleet, 1), *healthy(fleet, 2)]
    assert [{"verdict": "healthy", "children": 1}] * 2 == judged(store, lines, "verdict, children")


@pytest.mark.parametrize(
    ("mode", "connector"), [("push", "NixlPushConnector"), ("other", "ExampleConnector"), ("push", "")]
)
def test_kv_that_came_another_way_is_not_judged(store: EmbeddedStore, mode: str, connector: str) -> None:
    """Neither healthy nor local: the comparisons are made for NIXL pull, and the row says which way it was."""
    fleet = Fleet()
    story = Story(fleet, 1)
    story.read_start(mode, connector=connector)
    lines = [*fleet.configs(), *healthy(fleet, 1), *story.lines]
    [row] = judged(store, lines, "verdict, evidence, reason, missing, explanation")
    assert {
        "verdict": "unobserved",
        "evidence": "none",
        "reason": "mode",
        "missing": ["comparable_mode"],
    } == {name: row[name] for name in ("verdict", "evidence", "reason", "missing")}
    assert (connector or mode) in row["explanation"]


def test_a_failure_convicts_in_any_mode(store: EmbeddedStore) -> None:
    """The scheduler went on after a failed receive: how the KV was to come does not matter."""
    fleet = Fleet()
    story = Story(fleet, 1)
    story.read_start("push", connector="NixlPushConnector")
    lines = [*fleet.configs(), *corrupt(fleet, 1), *story.lines]
    assert [{"verdict": "corrupt", "reason": "a_missing_kv"}] == judged(store, lines, "verdict, reason")


def test_a_read_after_the_release_is_not_healthy(store: EmbeddedStore) -> None:
    """Blocks that prefill has let go of may hold anything by the time they are read."""
    fleet = Fleet()
    early = Story(fleet, 1)
    early.release("expired")
    lines = [*fleet.configs(), *early.lines, *healthy(fleet, 1)]
    assert [{"verdict": "unobserved", "missing": ["valid_lease"]}] == judged(store, lines, "verdict, missing")


def test_the_notice_of_the_read_itself_may_come_first(store: EmbeddedStore) -> None:
    """A small read is over, and prefill told, before decode's report of its start has a time stamp."""
    fleet = Fleet()
    own = Story(fleet, 1)
    own.release("read")
    lines = [*fleet.configs(), *own.lines, *healthy(fleet, 1)]
    assert [{"verdict": "healthy"}] == judged(store, lines, "verdict")


def test_a_lease_that_another_reader_ended_is_over(store: EmbeddedStore) -> None:
    """Two requests with one reference: the first one's completion lets go of the blocks the second reads."""
    fleet = Fleet()
    first = Story(fleet, 1)
    first.read_start()
    first.release("read")
    other = [line.replace(b"chatcmpl-req-1-bbbbbbbb", b"chatcmpl-req-9-bbbbbbbb") for line in first.lines]
    lines = [*fleet.configs(), *other, *healthy(fleet, 1)]
    rows = judged(store, lines, "verdict, missing, request_id")
    assert [{"verdict": "unobserved", "missing": ["valid_lease"]}] == [
        {name: row[name] for name in ("verdict", "missing")}
        for row in rows
        if row["request_id"] == "chatcmpl-req-1-bbbbbbbb"
    ]


def test_a_release_after_the_read_is_what_should_be(store: EmbeddedStore) -> None:
    """Decode tells, prefill lets go."""
    fleet = Fleet()
    lines = [*fleet.configs(), *healthy(fleet, 1)]
    late = Story(fleet, 1)
    late.release("read")
    assert [{"verdict": "healthy"}] == judged(store, [*lines, *late.lines], "verdict")
