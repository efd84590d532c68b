"""The hop from prefill to decode, over two real servers that stand where the engines stand."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.lab.serving import served
from tests.lab.stand_in_engine import Engine

from falseok_lab.asking import ask
from falseok_lab.router import ANSWERED_BY, OFFER, application, client, wrapped

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"


@dataclass(frozen=True)
class Hop:
    """A router between two stand-ins."""

    url: str
    prefill: Engine
    decode: Engine
    decode_url: str

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a request through the router."""
        return httpx.post(self.url + path, json=body, headers=headers, trust_env=False)


@pytest.fixture
def hop() -> Iterator[Hop]:
    """A router and two engines, all on loopback."""
    prefill, decode = Engine("prefill"), Engine("decode")
    with (
        served(prefill.app()) as prefill_url,
        served(decode.app()) as decode_url,
        served(application(prefill_url, decode_url, client())) as url,
    ):
        yield Hop(url, prefill, decode, decode_url)


def test_both_engines_get_the_same_request_id_and_decode_gets_what_prefill_offered(hop: Hop) -> None:
    """Prefill is asked for one token and to keep its cache; decode gets the client's request and the offer."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 16,
        "min_tokens": 4,
    }
    answer = hop.post(CHAT, body, **{"X-Request-Id": "lab-7"})
    assert 200 == answer.status_code
    assert "hello remote" == answer.json()["choices"][0]["message"]["content"]
    [(_, prefill_id, asked)] = hop.prefill.asked
    [(_, decode_id, passed)] = hop.decode.asked
    assert ("lab-7", "lab-7") == (prefill_id, decode_id)
    expected = {key: value for key, value in body.items() if key != "min_tokens"}
    assert expected | {"max_tokens": 1, "stream": False, "kv_transfer_params": OFFER} == asked
    assert body | {"kv_transfer_params": {"remote_block_ids": [[1, 2]], "remote_engine_id": "p"}} == passed


def test_a_request_without_an_id_gets_one_for_both(hop: Hop) -> None:
    """Without a shared id the two halves of a request cannot be told to belong together."""
    hop.post(COMPLETIONS, {"prompt": "hello"})
    [(_, prefill_id, _)] = hop.prefill.asked
    [(_, decode_id, _)] = hop.decode.asked
    assert prefill_id == decode_id
    assert 32 == len(prefill_id)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_stream_passes_through_byte_for_byte(hop: Hop, path: str) -> None:
    """What decode streams is what the client reads, and prefill is not asked to stream."""
    prompt: dict[str, Any] = {"prompt": "hello"}
    if path == CHAT:
        prompt = {"messages": [{"role": "user", "content": "hello"}]}
    body = prompt | {"stream": True, "stream_options": {"include_usage": True}, "max_completion_tokens": 9}
    routed = hop.post(path, body)
    passed = hop.decode.asked[0][2]
    alone = httpx.post(hop.decode_url + path, json=passed, headers={"X-Request-Id": "x"}, trust_env=False)
    assert alone.content == routed.content
    assert routed.content.endswith(b"data: [DONE]\n\n")
    assert alone.headers["content-type"] == routed.headers["content-type"]
    asked = hop.prefill.asked[0][2]
    assert (False, 1, False) == (asked["stream"], asked["max_completion_tokens"], "stream_options" in asked)


def test_an_error_of_prefill_is_the_answer_and_decode_is_not_asked(hop: Hop) -> None:
    """Status and body as prefill gave them."""
    answer = hop.post(COMPLETIONS, {"prompt": "fail prefill"})
    assert (503, "prefill failed") == (answer.status_code, answer.json()["error"]["message"])
    assert "prefill" == answer.headers[ANSWERED_BY]
    assert [] == hop.decode.asked


def test_an_error_of_decode_is_the_answer(hop: Hop) -> None:
    """Status and body as decode gave them."""
    answer = hop.post(COMPLETIONS, {"prompt": "fail decode"})
    assert (503, "decode failed") == (answer.status_code, answer.json()["error"]["message"])
    assert "decode" == answer.headers[ANSWERED_BY]


def test_a_prefill_that_offers_nothing_is_an_error_of_its_own(hop: Hop) -> None:
    """Decode would silently compute the prompt itself, and nothing would be transferred."""
    answer = hop.post(COMPLETIONS, {"prompt": "no offer"})
    assert 502 == answer.status_code
    assert "without kv_transfer_params" in answer.json()["error"]["message"]
    assert [] == hop.decode.asked


@pytest.mark.parametrize("content", [b"not json", b"[1]"], ids=["not JSON", "not an object"])
def test_a_request_that_is_no_object_is_refused(hop: Hop, content: bytes) -> None:
    """Neither engine hears of it."""
    answer = httpx.post(hop.url + CHAT, content=content, trust_env=False)
    assert 400 == answer.status_code
    assert [] == hop.prefill.asked


def test_an_engine_that_is_gone_is_named() -> None:
    """A closed port is a 502 that says which of the two could not be asked."""
    with (
        served(Engine("prefill").app()) as prefill,
        served(application(prefill, "http://127.0.0.1:9", client())) as url,
    ):
        answer = httpx.post(url + COMPLETIONS, json={"prompt": "hello"}, trust_env=False)
    assert 502 == answer.status_code
    assert "decode could not be asked" in answer.json()["error"]["message"]
    with served(application("http://127.0.0.1:9", "http://127.0.0.1:9", client())) as url:
        answer = httpx.post(url + COMPLETIONS, json={"prompt": "hello"}, trust_env=False)
        health = httpx.get(f"{url}/health", trust_env=False)
    assert "prefill could not be asked" in answer.json()["error"]["message"]
    assert 200 == health.status_code


def test_what_a_client_says_of_its_trace_and_of_itself_reaches_both_engines(hop: Hop) -> None:
    """Trace context and authorisation as they came; nothing else of the client's connection."""
    sent = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "k=v", "authorization": "Bearer t"}
    hop.post(COMPLETIONS, {"prompt": "hello", "n": 2}, **sent, **{"x-other": "1"})
    for engine in (hop.prefill, hop.decode):
        [headers] = engine.headers
        assert sent == {name: headers.get(name) for name in sent}
        assert "x-other" not in headers
        assert 2 == engine.asked[0][2]["n"]


def test_the_responses_api_is_asked_for_one_token_in_its_own_words_and_under_one_id(hop: Hop) -> None:
    """It names the limit otherwise, and takes its request id from the body only."""
    answer = hop.post(RESPONSES, {"input": "hello", "max_output_tokens": 9}, **{"X-Request-Id": "lab-7"})
    assert "hello remote" == answer.json()["output"][1]["content"][0]["text"]
    asked, passed = hop.prefill.asked[0][2], hop.decode.asked[0][2]
    assert (1, False) == (asked["max_output_tokens"], "max_tokens" in asked)
    assert (9, "lab-7", "lab-7") == (passed["max_output_tokens"], asked["request_id"], passed["request_id"])


@pytest.mark.parametrize(
    ("text", "role", "stream"),
    [
        pytest.param("wait prefill", "prefill", False, id="while prefill computes"),
        pytest.param("wait decode", "decode", False, id="before decode answers"),
        pytest.param("wait decode", "decode", True, id="before decode's stream begins"),
        pytest.param("drip", "decode", True, id="inside decode's stream"),
    ],
)
def test_a_client_that_leaves_ends_what_is_asked_for_it(hop: Hop, text: str, role: str, stream: bool) -> None:
    """The engine sees its own client leave: it would compute an answer for nobody otherwise."""
    engine = hop.prefill if role == "prefill" else hop.decode
    with httpx.Client(trust_env=False) as leaving:
        body = {"prompt": text, "stream": stream}
        seen = ask(leaving, hop.url + COMPLETIONS, body, {"x-request-id": "id-1"}, leave_after_seconds=0.3)
    assert seen.left
    deadline = time.monotonic() + 10
    while not engine.left and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 1 == engine.left
    assert (role == "decode") == bool(hop.decode.asked)


class Marking:
    """A middleware."""

    def __init__(self, app: Any) -> None:
        self.app = app


def test_the_router_goes_behind_a_middleware_by_its_name() -> None:
    """That is how the collector's is tried, which the lab does not know."""
    app = application("http://p", "http://d", client())
    assert app is wrapped(app, "")
    behind = wrapped(app, f"{__name__}.Marking")
    assert (Marking.__qualname__, app) == (type(behind).__qualname__, behind.app)
    with pytest.raises(ImportError):
        wrapped(app, "no.such.Middleware")
