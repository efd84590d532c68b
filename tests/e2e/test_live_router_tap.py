"""A real pair behind a router that tells its answers by the collector's middleware: both tell the same."""

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.engines import REPOSITORY, PrintingReporter, cache_directory

from falseok_lab.drive import DriveSettings, drive
from falseok_lab.pair import PairSettings, down, up
from falseok_lab.spool_lines import read_spool

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

CONTENT = (
    "endpoint",
    "http_status",
    "stream",
    "stream_complete",
    "finish_reasons",
    "choices",
    "choice_outputs",
    "output_kinds",
    "content_characters",
    "reasoning_characters",
    "tool_call_characters",
    "tool_calls",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "chunks",
    "response_bytes",
    "error_in_stream",
    "error_type",
    "client_disconnected",
    "unreadable",
    "unreadable_events",
    "model",
    "requested_thinking",
    "requested_choices",
    "requested_temperature",
    "requested_max_tokens",
)
"""What a router sees as the engine does. Times, the transfer and the tokens' ids differ by nature."""
OF_THE_ENGINE = {"longest_token_run", "sentinel_token_run", "mean_log_probability"}


def test_a_router_tells_what_decode_tells(tmp_path: Path) -> None:
    """Chat, completions and the responses API, streamed and not, with two choices; every content field is equal."""
    reporter = PrintingReporter()
    settings = PairSettings(
        name="tap",
        data=tmp_path,
        cache=cache_directory(),
        vllm="0.32.0",
        collector_source=REPOSITORY,
        router_collector=True,
    )
    state = up(settings, reporter)
    try:
        answers = drive(state, DriveSettings(requests=8, traceparent=True))
        for endpoint in ("responses", "chat"):
            choices = 2 if endpoint == "chat" else 1
            wanted = DriveSettings(requests=4, endpoint=endpoint, n=choices, temperature=0.5)
            answers += drive(state, wanted)
    finally:
        down("tap", tmp_path, reporter)
    events = [one for one in read_spool(state.spool).events if one["name"] == "api.response"]
    router = {one["external_id"]: one for one in events if one["attrs"].get("observer") == "router"}
    decode = {one["external_id"]: one for one in events if one.get("group", "").endswith("-decode")}
    ids = {answer.external_id for answer in answers}
    assert (ids, ids) == (set(router), set(decode))
    assert {name: told(decode[name]) for name in ids} == {name: told(router[name]) for name in ids}
    assert {200} == {one["attrs"]["http_status"] for one in router.values()}
    assert all(one["attrs"]["features"]["longest_token_run"] for one in decode.values())
    traced = [name for name in ids if decode[name].get("trace_id")]
    assert 8 == len(traced)
    assert all(router[name]["trace_id"] == decode[name]["trace_id"] for name in traced)
    assert {""} == {one.get("engine_id", "") for one in router.values()}


def told(event: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer that do not depend on where it was seen."""
    attributes = event["attrs"]
    features = {name: value for name, value in attributes["features"].items() if name not in OF_THE_ENGINE}
    return {name: attributes.get(name) for name in CONTENT} | {"features": features}
