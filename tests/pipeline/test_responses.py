"""Answers by SQL: one row each, whoever saw it; a router's is no request of its own."""

from typing import Any

from tests.pipeline.stories import Fleet, Process, healthy

from falseok_collector.attributes import ApiResponse
from falseok_pipeline.embedded import EmbeddedStore

ANSWER = ApiResponse(
    endpoint="/v1/responses",
    http_status=200,
    stream=True,
    stream_complete=False,
    output_kinds=["reasoning", "content"],
    tool_calls=2,
    cached_tokens=3,
    requested_thinking="high",
    requested_temperature=1.0,
    remote_request_id="chatcmpl-r-0123abcd",
    features={"surprise_bits": 7.5, "longest_digit_run": 3.0},
)


def stored(store: EmbeddedStore, *lines: bytes) -> None:
    """Put lines into the store, twice, as happens after a crash."""
    for _ in range(2):
        store.insert_events(b"\n".join(lines) + b"\n")


def test_an_answer_is_one_row_with_its_fields_and_features(store: EmbeddedStore) -> None:
    """By their names in the contract, in their types."""
    process = Process(engine_id="engine-1", group="g", boot="b0", process="api_server")
    stored(store, process.emit(1_700_000_000_000_000, ANSWER, request_id="r-0123abcd", external_id="r"))
    (row,) = store.query("SELECT * FROM responses")
    expected: dict[str, Any] = {
        "id": "b0-1",
        "external_id": "r",
        "endpoint": "/v1/responses",
        "stream_complete": False,
        "output_kinds": ["reasoning", "content"],
        "tool_calls": 2,
        "cached_tokens": 3,
        "requested_thinking": "high",
        "requested_temperature": 1,
        "requested_max_tokens": 0,
        "remote_request_id": "chatcmpl-r-0123abcd",
        "features": {"surprise_bits": 7.5, "longest_digit_run": 3},
    }
    assert expected == {name: row[name] for name in expected}


def test_features_can_be_asked_for(store: EmbeddedStore) -> None:
    """Mean by model, as an operator would."""
    process = Process(engine_id="engine-1", group="g", boot="b0", process="api_server")
    lines = [
        process.emit(
            number, ApiResponse(model="tiny", features={"surprise_bits": bits}), request_id=f"r{number}"
        )
        for number, bits in enumerate((4, 6.0), 1)
    ]
    stored(store, *lines, process.emit(9, ApiResponse(model="tiny", features_missing="off")))
    sql = "SELECT model, avg(features['surprise_bits']) AS bits FROM responses WHERE mapContains(features, 'surprise_bits') GROUP BY model"
    assert [{"model": "tiny", "bits": 5}] == store.query(sql)


def test_an_answer_that_a_router_told_is_no_request(store: EmbeddedStore) -> None:
    """The engine told it already; the router's word is in `responses` only."""
    fleet = Fleet()
    router = Process(engine_id="", group="", boot="b9", process="router")
    stored(store, *fleet.configs(), *healthy(fleet, 1))
    before = store.query("SELECT * FROM request_verdicts ORDER BY engine_id, request_id")
    stored(store, router.emit(fleet.tick(), ApiResponse(http_status=200, observer="router"), external_id="r"))
    assert before == store.query("SELECT * FROM request_verdicts ORDER BY engine_id, request_id")
    assert [{"observer": "router"}] == store.query("SELECT observer FROM responses WHERE engine_id = ''")


def test_a_rejected_request_of_an_engine_still_is_one(store: EmbeddedStore) -> None:
    """It reached no engine core and stands for itself."""
    process = Process(engine_id="engine-1", group="g", boot="b0", process="api_server")
    stored(store, process.emit(1, ApiResponse(http_status=400)))
    assert [{"request_id": "response:b0-1"}] == store.query("SELECT request_id FROM requests")
