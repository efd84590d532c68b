"""One question over HTTP to a real server, and what the client notes."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.lab.serving import served
from tests.lab.stand_in_engine import Engine

from falseok_lab.asking import PATHS, Seen, ask


@pytest.fixture
def url() -> Iterator[str]:
    """A server that answers as decode alone would."""
    with served(Engine("decode").app()) as url:
        yield url


def asked(url: str, endpoint: str, text: str, **more: Any) -> Seen:
    """Ask about a text."""
    prompt: dict[str, Any] = {"prompt": text}
    if endpoint == "chat":
        prompt = {"messages": [{"role": "user", "content": text}]}
    with httpx.Client(trust_env=False) as client:
        return ask(client, url + PATHS[endpoint], prompt | more, {"x-request-id": "id-1"})


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_every_shape_of_answer_is_read(url: str, endpoint: str, stream: bool) -> None:
    """Text, finish reason and usage, from whole answers and from streams, of both endpoints."""
    seen = asked(url, endpoint, "hello", stream=stream)
    assert (200, "", "hello local", "length") == (seen.status, seen.error, seen.content, seen.finish_reason)
    assert {"prompt_tokens": 7, "completion_tokens": 3} == seen.usage
    assert 0 < seen.first_text_seconds <= seen.seconds


def test_an_error_inside_a_stream_is_kept_beside_the_200(url: str) -> None:
    """The status was sent before the failure: both are what the client saw."""
    seen = asked(url, "chat", "break", stream=True)
    assert (200, '{"message": "Internal server error", "code": 500}') == (seen.status, seen.error)
    assert "brea" == seen.content[:4]


def test_an_error_status_keeps_its_body(url: str) -> None:
    """Also when a stream was asked for."""
    seen = asked(url, "completions", "fail decode", stream=True)
    assert 503 == seen.status
    assert "decode failed" in seen.error


def test_no_answer_at_all_is_noted() -> None:
    """Status 0 and the reason."""
    seen = asked("http://127.0.0.1:9", "chat", "hello")
    assert 0 == seen.status
    assert "ConnectError" in seen.error


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_responses_api_is_read_alike(url: str, stream: bool) -> None:
    """Text and reasoning once, its status as finish reason, its usage under the usual names."""
    seen = asked(url, "responses", "hello", stream=stream)
    assert (200, "", "hello local", "hm") == (seen.status, seen.error, seen.content, seen.reasoning)
    assert ("completed", {0}) == (seen.finish_reason, seen.choices)
    assert {"prompt_tokens": 7, "completion_tokens": 3} == seen.usage


def test_choices_are_counted_and_the_first_is_kept(url: str) -> None:
    """Of two equal choices the text is there once."""
    seen = asked(url, "chat", "hello", n=2)
    assert ({0, 1}, "hello local") == (seen.choices, seen.content)


@pytest.mark.parametrize(("endpoint", "call"), [("chat", (0, 0)), ("responses", (0, 2))])
def test_tool_calls_are_noted(url: str, endpoint: str, call: tuple[int, int]) -> None:
    """By choice and number."""
    assert {call} == asked(url, endpoint, "call it").tool_calls


@pytest.mark.parametrize(
    ("text", "stream", "status"),
    [
        pytest.param("wait decode", False, 0, id="before anything came"),
        pytest.param("drip", True, 200, id="in the middle of a stream"),
    ],
)
def test_a_client_that_leaves_says_so_and_calls_it_no_error(
    url: str, text: str, stream: bool, status: int
) -> None:
    """What had come until then is kept."""
    with httpx.Client(trust_env=False) as client:
        body = {"prompt": text, "stream": stream}
        headers = {"x-request-id": "id-1"}
        seen = ask(client, url + PATHS["completions"], body, headers, leave_after_seconds=0.3)
    assert (True, status, "") == (seen.left, seen.status, seen.error)
    assert (text == "drip") == ("x" in seen.content)
    assert 0.3 <= seen.seconds < 5


def test_time_running_out_is_an_error_where_nobody_meant_to_leave(url: str) -> None:
    """The client's own time limit."""
    with httpx.Client(trust_env=False, timeout=0.2) as client:
        seen = ask(client, url + PATHS["completions"], {"prompt": "wait decode"}, {"x-request-id": "id-1"})
    assert (False, 0) == (seen.left, seen.status)
    assert "ReadTimeout" in seen.error
