"""The named triage queries, as documented and as they answer."""

import pytest
from tests.pipeline.stories import Fleet, Story, corrupt, failed_closed, healthy

from falseok_pipeline import queries
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import PipelineError, QueryError

NAMES = (
    "affected_requests",
    "configuration_difference",
    "evidence_coverage",
    "request_story",
    "requests_by_verdict",
)


@pytest.fixture
def filled(store: EmbeddedStore) -> EmbeddedStore:
    """Two corrupt requests and one that failed closed, between engines that differ in their dtype."""
    fleet = Fleet()
    fleet.decode.dtype = "torch.float32"
    lines = [
        *fleet.configs(),
        *corrupt(fleet, 1),
        *corrupt(fleet, 2),
        *failed_closed(fleet, 3),
        fleet.heartbeat(fleet.decode.core),
    ]
    store.insert_events(b"".join(line + b"\n" for line in lines))
    return store


def ask(store: EmbeddedStore, name: str, **values: str) -> list[dict[str, object]]:
    """A named query's rows."""
    query = queries.load()[name]
    return store.query(query.sql, query.bind(values))


def test_the_queries_are_these() -> None:
    """Commands and documents name them."""
    assert NAMES == tuple(queries.load())


@pytest.mark.parametrize("name", NAMES)
def test_a_query_gives_the_columns_it_documents(filled: EmbeddedStore, name: str) -> None:
    """With its defaults alone it runs, and every column is documented, in order."""
    query = queries.load()[name]
    needed = {p.name: "req-1" for p in query.parameters if p.default is None}
    rows = ask(filled, name, **needed)
    assert rows
    assert [column.name for column in query.columns] == list(rows[0])
    assert all(f"{{{parameter.name}:{parameter.type}}}" in query.sql for parameter in query.parameters)


def test_affected_requests_are_those_of_the_fingerprint(filled: EmbeddedStore) -> None:
    """Every part of the fingerprint narrows the list, and so does time."""
    assert ["req-1", "req-2"] == [row["external_id"] for row in ask(filled, "affected_requests")]
    closed = ask(filled, "affected_requests", verdict="failed_closed", reason="handshake_failed")
    assert ["req-3"] == [row["external_id"] for row in closed]
    for name, value in (
        ("reason", "b_other_blocks"),
        ("prefill_group", "x"),
        ("decode_group", "x"),
        ("model", "x"),
        ("until", "1"),
        ("since", "9000000000000000"),
    ):
        assert [] == ask(filled, "affected_requests", **{name: value})
    assert 3 == len(ask(filled, "affected_requests", verdict=""))


@pytest.mark.parametrize("known", ["external_id", "prefill_request", "decode_request"])
def test_a_request_is_told_from_any_of_its_ids(filled: EmbeddedStore, known: str) -> None:
    """Both engines' events in time order, and nothing of another request."""
    story = ask(filled, "request_story", request_id=str(getattr(Story(Fleet(), 1), known)))
    assert [
        ("prefill", "sched.admit"),
        ("prefill", "sched.finish"),
        ("prefill", "kv.offer"),
        ("prefill", "api.response"),
        ("decode", "sched.admit"),
        ("decode", "sched.wait_remote"),
        ("decode", "kv.read.end"),
        ("decode", "sched.resume"),
        ("decode", "sched.finish"),
        ("decode", "api.response"),
    ] == [(row["leg"], row["name"]) for row in story]
    assert "2025-11-30T22:40:52.003000Z" == story[0]["time"]


def test_the_difference_is_shown_as_it_was_hashed(filled: EmbeddedStore) -> None:
    """By engine or by group, either side."""
    for selected in ({}, {"prefill": "3689deac-prefill"}, {"decode": "10.0.0.2:5700"}):
        [row] = ask(filled, "configuration_difference", **selected)
        assert ("dtype", "torch.bfloat16", "torch.float32") == (
            row["factor"],
            row["prefill_value"],
            row["decode_value"],
        )
    assert [] == ask(filled, "configuration_difference", decode="3689deac-prefill")


def test_verdicts_are_counted(filled: EmbeddedStore) -> None:
    """Most frequent first."""
    rows = ask(filled, "requests_by_verdict")
    assert [("corrupt", 2), ("failed_closed", 1)] == [(row["verdict"], row["requests"]) for row in rows]


def test_lost_events_show_in_the_coverage(filled: EmbeddedStore) -> None:
    """A gap in a process's numbers is lost evidence."""
    fleet = Fleet()
    fleet.prefill.core.boot = "gap"
    lines = healthy(fleet, 7)
    kept = [line for line in lines if b'"id":"gap-2"' not in line]
    assert len(lines) - 1 == len(kept)
    filled.insert_events(b"".join(line + b"\n" for line in kept))
    lost = {row["boot"]: row["lost_events"] for row in ask(filled, "evidence_coverage")}
    assert (1, 0) == (lost["gap"], lost["dcore0"])


def test_a_value_is_given_for_each_parameter_and_no_other() -> None:
    """Both mistakes are told by name."""
    query = queries.load()["request_story"]
    with pytest.raises(QueryError, match="needs a value for request_id"):
        query.bind({})
    with pytest.raises(QueryError, match=r"has no parameter id. It takes: request_id"):
        query.bind({"id": "x"})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- question: What?\nSELECT 1",
        "-- question: What?\n-- column: Bad Name : x\nSELECT 1",
        "-- question: What?\n-- parameter: x string : lower case\n-- column: a : b\nSELECT 1",
    ],
    ids=["no header", "no columns", "column", "parameter"],
)
def test_a_header_that_cannot_be_read_is_an_error(text: str) -> None:
    """A query without documentation does not load."""
    with pytest.raises(PipelineError):
        queries.parse("x", text)
