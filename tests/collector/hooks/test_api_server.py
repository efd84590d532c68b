"""What an API server tells: which engine it serves, and what each client was answered."""

import asyncio
import contextvars
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from tests.collector.bodies import chat
from tests.collector.hooks.hooked import Hooked

from falseok_collector.attributes import ApiResponse, EngineConfig
from falseok_collector.identity import bounded_id


class AsyncLLM:
    """Stands for vLLM's engine client."""

    def __init__(self, vllm_config: Any, engine_core: Any = None) -> None:
        self.vllm_config = vllm_config
        self.engine_core = engine_core


class DPAsyncMPClient:
    """Stands for vLLM's client of one engine core among data-parallel ones."""

    def __init__(self, *ranks: int) -> None:
        self.core_engines = [rank.to_bytes(2, "little") for rank in ranks]

    def get_core_engine_for_request(self, request: Any) -> bytes:
        """The only one there is."""
        return self.core_engines[0]


class DPLBAsyncMPClient(DPAsyncMPClient):
    """Stands for vLLM's client that chooses among several."""

    def get_core_engine_for_request(self, request: Any) -> bytes:
        """The least loaded one; here the last."""
        return self.core_engines[-1]


class OutputProcessor:
    """Stands for the place where engine requests are registered."""

    def add_request(self, request: Any, prompt: str | None = None) -> None:
        """Register."""

    def _finish_request(self, req_state: Any) -> None:
        """Forget."""


class Application(Starlette):
    """A class of its own to wrap, as FastAPI is."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve."""
        await super().__call__(scope, receive, send)


TRANSFER = SimpleNamespace(engine_id="engine-here", kv_role="kv_both")
CONFIG = SimpleNamespace(kv_transfer_config=TRANSFER)


def engine_request(internal: str, parameters: dict[str, Any] | None = None) -> Any:
    """An engine request as the output processor gets it."""
    arguments = None if parameters is None else {"kv_transfer_params": parameters}
    return SimpleNamespace(
        request_id=internal, external_req_id="x", sampling_params=SimpleNamespace(extra_args=arguments)
    )


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    """All hooks of an API server on the stand-ins."""
    process = Hooked()
    process.wrap(AsyncLLM, __init__="api.engine_client")
    process.wrap(OutputProcessor, add_request="api.add_request", _finish_request="api.finish_request")
    process.wrap(Application, __call__="api.application")
    process.wrap(DPLBAsyncMPClient, get_core_engine_for_request="api.engine_choice")
    process.wrap(DPAsyncMPClient, get_core_engine_for_request="api.engine_choice_external")
    yield process
    for probe in process.probes:
        probe.uninstall()


def serving(*requests: Any, client: DPAsyncMPClient | None = None) -> Application:
    """An application whose endpoints make these engine requests, and send them through a client."""

    async def endpoint(_: Request) -> Response:
        for request in requests:
            OutputProcessor().add_request(request)
            if client is not None:
                client.get_core_engine_for_request(request)
        return JSONResponse(chat())

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok")

    paths = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
    routes = [Route(path, endpoint, methods=["POST"]) for path in paths]
    return Application(routes=[*routes, Route("/health", health)])


def call(application: Any, method: str, path: str, **headers: str) -> httpx.Response:
    """One request of a client."""

    async def client() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
            return await http.request(method, path, headers=headers)

    return asyncio.run(client())


def test_the_engine_client_names_the_engine(hooked: Hooked) -> None:
    """Process and engine are known from then on; the configuration is told."""
    AsyncLLM(CONFIG)
    config = hooked.only().attributes
    assert isinstance(config, EngineConfig)
    assert ("api_server", "kv_both") == (config.process, config.role)
    assert ("api_server", "engine-here") == (hooked.emitter.process, hooked.emitter.engine_id)


def test_an_engine_without_transfers_says_nothing(hooked: Hooked) -> None:
    """There is nothing to join it with."""
    AsyncLLM(SimpleNamespace(kv_transfer_config=None))
    assert [] == hooked.events()
    assert "" == hooked.emitter.engine_id


def test_every_data_parallel_engine_behind_a_server_is_told_its_configuration(hooked: Hooked) -> None:
    """Engine cores append their rank to the engine id; the server does not know that name by itself."""
    AsyncLLM(CONFIG, DPLBAsyncMPClient(0, 1))
    assert ["engine-here_dp0", "engine-here_dp1"] == [event.record.engine_id for event in hooked.events()]
    assert "engine-here" == hooked.emitter.engine_id


def test_a_server_of_one_data_parallel_engine_takes_its_name(hooked: Hooked) -> None:
    """With a load balancer outside each server has one engine core."""
    AsyncLLM(CONFIG, DPAsyncMPClient(3))
    assert "engine-here_dp3" == hooked.only().record.engine_id
    assert "engine-here_dp3" == hooked.emitter.engine_id


def test_an_answer_names_the_engine_that_served_it(hooked: Hooked) -> None:
    """The rank that the client chose for the first engine request; else the two would not meet in the store."""
    client = DPLBAsyncMPClient(0, 258)
    AsyncLLM(CONFIG, client)
    hooked.events()
    call(serving(engine_request("chatcmpl-r-0123abcd"), client=client), "POST", "/v1/chat/completions")
    assert "engine-here_dp258" == hooked.only().record.engine_id


def test_a_choice_outside_an_exchange_concerns_no_answer(hooked: Hooked) -> None:
    """Health probes and warm-up requests of the engine's own are served by nobody."""
    client = DPLBAsyncMPClient(0, 1)
    assert b"\x01\x00" == client.get_core_engine_for_request(engine_request("r"))
    assert [] == hooked.events()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_an_answer_is_told_with_the_engine_requests_behind_it(hooked: Hooked, path: str) -> None:
    """Internal ids from the engine, the external one from the client's header."""
    application = serving(engine_request("chatcmpl-x-0123abcd"), engine_request("1_chatcmpl-x-0123abcd"))
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    response = call(application, "POST", path, **{"X-Request-Id": "router-1", "traceparent": traceparent})
    assert chat() == response.json()
    event = hooked.only()
    answer = event.attributes
    assert isinstance(answer, ApiResponse)
    assert (path, 200, ["chatcmpl-x-0123abcd", "1_chatcmpl-x-0123abcd"], ["stop"]) == (
        answer.endpoint,
        answer.http_status,
        answer.engine_request_ids,
        answer.finish_reasons,
    )
    assert ("chatcmpl-x-0123abcd", "router-1", traceparent) == (
        event.record.request_id,
        event.record.external_id,
        event.record.traceparent,
    )


def test_without_a_header_the_external_id_comes_from_the_engines(hooked: Hooked) -> None:
    """vLLM made it up, but a router may have it from the body."""
    call(serving(engine_request("cmpl-made-up-0-0123abcd")), "POST", "/v1/completions")
    assert "made-up" == hooked.only().record.external_id


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"do_remote_decode": True}, "remote_decode"),
        ({"do_remote_prefill": True, "remote_engine_id": "e"}, "remote_prefill"),
        ({}, ""),
        (None, ""),
    ],
    ids=["prefill leg", "decode leg", "empty", "none"],
)
def test_the_leg_is_that_of_the_request(
    hooked: Hooked, parameters: dict[str, Any] | None, expected: str
) -> None:
    """A prefill leg is not an answer to a client, and is told apart by this."""
    call(serving(engine_request("chatcmpl-x-0123abcd", parameters)), "POST", "/v1/chat/completions")
    answer = hooked.only().attributes
    assert isinstance(answer, ApiResponse)
    assert expected == answer.kv_transfer_in


@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("POST", "/v1/embeddings"), ("GET", "/no")])
def test_other_endpoints_pass_untouched(hooked: Hooked, method: str, path: str) -> None:
    """Nothing is told, whatever they answer."""
    call(serving(), method, path)
    assert [] == hooked.events()


def test_an_engine_request_outside_of_any_answer_is_left_alone(hooked: Hooked) -> None:
    """Warm-up requests of the server itself."""
    OutputProcessor().add_request(engine_request("warm-up"))
    assert [] == hooked.events()


def test_at_the_start_of_the_application_its_arguments_are_told(hooked: Hooked) -> None:
    """Parsers and chat template are known to the API server only."""
    AsyncLLM(CONFIG)
    hooked.events()
    application = serving()
    application.state.args = SimpleNamespace(
        reasoning_parser="qwen3", tool_call_parser="hermes", chat_template=None
    )
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> Any:
        return next(messages)

    async def send(_: Any) -> None:
        pass

    asyncio.run(application({"type": "lifespan", "app": application, "state": {}}, receive, send))
    config = hooked.only().attributes
    assert isinstance(config, EngineConfig)
    assert ("qwen3", "hermes") == (config.reasoning_parser, config.tool_call_parser)


def test_token_ids_of_the_engine_become_features(hooked: Hooked) -> None:
    """Told by the output processor in a task of its own, by the internal id; forgotten with the exchange."""
    request = engine_request("chatcmpl-x-0123abcd")
    ids = [7, 0, 0, 0]

    async def endpoint(_: Request) -> Response:
        processor = OutputProcessor()
        processor.add_request(request)
        state = SimpleNamespace(
            request_id=request.request_id,
            detokenizer=SimpleNamespace(output_token_ids=ids),
            logprobs_processor=SimpleNamespace(cumulative_logprob=-8.0),
        )
        contextvars.Context().run(processor._finish_request, state)
        processor._finish_request(SimpleNamespace(request_id="of nobody"))
        return JSONResponse(chat())

    path = "/v1/chat/completions"
    call(Application(routes=[Route(path, endpoint, methods=["POST"])]), "POST", path)
    answer = hooked.only().attributes
    assert isinstance(answer, ApiResponse)
    assert (3, 3, -2) == tuple(
        answer.features[name] for name in ("longest_token_run", "sentinel_token_run", "mean_log_probability")
    )
    assert {} == hooked.api._serving


def test_a_prompt_that_is_a_list_gives_one_answer(hooked: Hooked) -> None:
    """All engine requests behind it are named; ids that are too long are cut as everywhere."""
    long = f"cmpl-{'x' * 2_000}-1-0123abcd"
    call(serving(engine_request("cmpl-x-0-0123abcd"), engine_request(long)), "POST", "/v1/completions")
    answer = hooked.only().attributes
    assert isinstance(answer, ApiResponse)
    assert ["cmpl-x-0-0123abcd", bounded_id(long)] == answer.engine_request_ids
