"""Who an event is about, out of vLLM's own spelling of ids."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.hooks.parameters import read_parameters
from falseok_collector.identity import (
    MAX_ID_CHARACTERS,
    bounded_id,
    external_id_of,
    trace_ids,
    transfer_id_of,
)

UUID = "5f0c2b1e-8f1a-4c55-9d3e-0123456789ab"


@pytest.mark.parametrize(
    ("internal", "external"),
    [
        pytest.param("chatcmpl-abc-0123abcd", "abc", id="chat"),
        pytest.param("0_chatcmpl-abc-0123abcd", "abc", id="first choice of chat with n above 1"),
        pytest.param("12_chatcmpl-abc-0123abcd", "abc", id="thirteenth choice"),
        pytest.param("cmpl-abc-0-0123abcd", "abc", id="completion, first prompt"),
        pytest.param("cmpl-abc-17-0123abcd", "abc", id="completion, eighteenth prompt"),
        pytest.param("3_cmpl-abc-17-0123abcd", "abc", id="completion, choice of a prompt"),
        pytest.param(f"chatcmpl-{UUID}-0123abcd", UUID, id="an id with dashes"),
        pytest.param(f"cmpl-{UUID}-0-0123abcd", UUID, id="an id with dashes and a prompt index"),
        pytest.param("cmpl-job-7-0-0123abcd", "job-7", id="an id that ends like a prompt index"),
        pytest.param("chatcmpl-job-7-0123abcd", "job-7", id="chat has no prompt index"),
        pytest.param("chatcmpl-job_7-0123abcd", "job_7", id="chat has no tool round"),
        pytest.param("job-7_0-0123abcd", "job-7", id="responses API"),
        pytest.param(
            "resp_86f1a8165a36bdc1_11-0123abcd", "resp_86f1a8165a36bdc1", id="responses, later tool round"
        ),
        pytest.param("chatcmpl-deadbeef-0123abcd", "deadbeef", id="an id that looks like the suffix"),
        pytest.param("chatcmpl-1_x-0123abcd", "1_x", id="an id that looks like a choice"),
        pytest.param("chatcmpl-cmpl-x-0123abcd", "cmpl-x", id="an id with a prefix of its own"),
        pytest.param("cmpl-abc-0", "abc", id="completion without the random suffix"),
        pytest.param("chatcmpl-abc", "abc", id="chat without the random suffix"),
        pytest.param("plain", "plain", id="an engine request without a front end"),
        pytest.param("plain-0123abcd", "plain", id="the same with its suffix"),
        pytest.param("", "", id="no id"),
    ],
)
def test_the_clients_id_is_found_in_the_engines(internal: str, external: str) -> None:
    """Prefix, choice, prompt index and random suffix are vLLM's; the rest is the client's."""
    assert external == external_id_of(internal)


@given(
    st.text(min_size=1),
    st.sampled_from(["", "0_", "31_"]),
    st.sampled_from([("chatcmpl-", ""), ("cmpl-", "-0"), ("cmpl-", "-205")]),
    st.integers(0, 2**32 - 1),
)
def test_any_id_of_a_client_survives(client: str, choice: str, ends: tuple[str, str], random: int) -> None:
    """Whatever a client sends, vLLM's wrapping is taken off and nothing else."""
    prefix, prompt_index = ends
    assert client == external_id_of(f"{choice}{prefix}{client}{prompt_index}-{random:08x}")


@pytest.mark.parametrize(
    ("engine", "request_id", "expected"),
    [("e1", "r1", "e1/r1"), ("", "r1", ""), ("e1", "", ""), ("", "", "")],
)
def test_a_transfer_needs_both_its_parts(engine: str, request_id: str, expected: str) -> None:
    """Half a name would join what does not belong together."""
    assert expected == transfer_id_of(engine, request_id)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"remote_engine_id": "e1", "remote_request_id": "r1", "remote_port": 1}, "e1/r1"),
        ({"remote_engine_id": "e1"}, ""),
        ({"remote_engine_id": None, "remote_request_id": "r1"}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_decode_names_the_transfer_by_its_producer(parameters: dict[str, Any] | None, expected: str) -> None:
    """Engine and request of the other side, as the router handed them on."""
    assert expected == read_parameters(parameters).transfer_id


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_a_traceparent_gives_trace_and_span() -> None:
    """W3C trace context, version 00; later versions may append fields."""
    assert (TRACE, SPAN) == trace_ids(f"00-{TRACE}-{SPAN}-01")
    assert (TRACE, SPAN) == trace_ids(f"cc-{TRACE}-{SPAN}-01-more")


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
    ],
)
def test_an_invalid_traceparent_gives_nothing(traceparent: str) -> None:
    """Rather no trace than a wrong one."""
    assert ("", "") == trace_ids(traceparent)


def test_long_ids_stay_one_and_stay_different() -> None:
    """Cut with a digest, the same way on both sides of a transfer and however often."""
    one, other = "r" * 2_000 + "a", "r" * 2_000 + "b"
    assert bounded_id(one) != bounded_id(other)
    assert bounded_id(one) == bounded_id(bounded_id(one))
    assert MAX_ID_CHARACTERS == len(bounded_id(one))
    assert "short" == bounded_id("short")
    assert transfer_id_of("e", one) == transfer_id_of("e", bounded_id(one))
