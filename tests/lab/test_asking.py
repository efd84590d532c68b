"""One question over HTTP to a real server, and what the client notes."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.lab.serving import served
from tests.lab.stand_in_engine import Engine

from falseok_lab.asking import Seen, ask


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
        return ask(client, url, endpoint, prompt | more, "id-1")


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
