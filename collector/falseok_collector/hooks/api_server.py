"""What an API server process shows: its configuration, the engine requests it makes, and what clients get."""

from collections.abc import Coroutine
from typing import Any

from falseok_collector import tap
from falseok_collector.described import Describer, EngineTokens, TextOptions
from falseok_collector.emitter import Emitter
from falseok_collector.engine_config import engine_config, side_channel
from falseok_collector.hooks.probe import Call, Probe
from falseok_collector.identity import external_id_of
from falseok_collector.request_body import transfer_of
from falseok_collector.response import MAX_TEXTS
from falseok_collector.text_features import MAX_TOKENS_SEEN


class ApiServerObserver:
    """Observers of one API server process."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._vllm_config: Any = None
        self._base_id = ""
        self._describer = Describer(TextOptions.of(emitter.settings))
        self._serving: dict[str, tap.Exchange] = {}
        """Exchanges being served, by the internal ids of their engine requests."""
        self._engine_ids: list[str] = []
        """Engines this process sends requests to: one, or one for each data-parallel rank."""

    def after_async_llm(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """The engine client is up: this process serves, and knows the engine's id."""
        vllm_config = call.instance.vllm_config
        self._vllm_config = vllm_config
        emitter = self._emitter
        emitter.process = "api_server"
        transfer = vllm_config.kv_transfer_config
        base = str(transfer.engine_id) if transfer is not None else ""
        self._engine_ids = _engine_ids(base, getattr(call.instance, "engine_core", None))
        emitter.engine_id = self._engine_ids[0] if len(self._engine_ids) == 1 else base
        self._base_id = base
        emitter.group = emitter.group or side_channel()
        if transfer is not None:
            self._report(None)

    def before_add_request(self, call: Call) -> None:
        """The output processor registers an engine request inside the task that serves an exchange."""
        exchange = tap.CURRENT.get()
        if exchange is None:
            return
        request = call.argument("request")
        exchange.engine_requests.append((request.request_id, request.external_req_id or ""))
        self._serving[request.request_id] = exchange
        arguments = getattr(request.sampling_params, "extra_args", None)
        parameters = arguments.get("kv_transfer_params") if isinstance(arguments, dict) else None
        exchange.kv_transfer_in = transfer_of(parameters).leg or exchange.kv_transfer_in

    def before_finish_request(self, call: Call) -> None:
        """An engine request is done: its token ids, in a task that is not the exchange's own."""
        state = call.argument("req_state")
        exchange = self._serving.get(state.request_id)
        if exchange is not None and len(exchange.tokens) < MAX_TEXTS:
            exchange.tokens.append(_tokens(state))

    def after_engine_choice(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """With data parallelism: which engine core a request goes to, in the task that serves the exchange."""
        exchange = tap.CURRENT.get()
        if exchange is not None and exchange.engine_rank is None:
            exchange.engine_rank = _rank(result)

    def around_application(self, probe: Probe, wrapped: Any, call: Call) -> Coroutine[Any, Any, None]:
        """Watch the endpoints that generate text; everything else passes untouched."""
        scope = call.argument("scope", {})
        kind = scope.get("type") if isinstance(scope, dict) else None
        if kind == "lifespan":
            probe.observe(self._report_arguments, call.instance)
        if kind != "http" or scope.get("path") not in tap.TAPPED_PATHS:
            application: Coroutine[Any, Any, None] = wrapped(*call.args, **call.kwargs)
            return application
        return tap.watch(
            wrapped,
            scope,
            call.argument("receive"),
            call.argument("send"),
            guard=probe.observe,
            done=self._done,
        )

    def _done(self, exchange: tap.Exchange) -> None:
        internal, external = exchange.engine_requests[0] if exchange.engine_requests else ("", "")
        for name, _ in exchange.engine_requests:
            self._serving.pop(name, None)
        self._emitter.emit(
            self._describer.describe(
                exchange.to_attributes(), exchange.texts(), exchange.request, exchange.tokens
            ),
            engine_id=_engine_id(self._base_id, exchange.engine_rank),
            request_id=internal,
            external_id=exchange.client_id or external_id_of(internal or external),
            traceparent=exchange.traceparent,
        )

    def _report_arguments(self, application: Any) -> None:
        """At start-up of the application its parsed arguments are known: parsers and chat template."""
        arguments = getattr(application.state, "args", None)
        if arguments is not None and self._vllm_config is not None and self._emitter.engine_id:
            self._report(arguments)

    def _report(self, arguments: Any) -> None:
        config = engine_config(self._vllm_config, "api_server", api_arguments=arguments)
        for engine_id in self._engine_ids:
            self._emitter.emit(config, engine_id=engine_id)


def _tokens(state: Any) -> EngineTokens:
    """Beginning and end of a request's token ids (`RequestState`, the same in 0.26 to 0.33)."""
    detokenizer = state.detokenizer
    ids = detokenizer.output_token_ids if detokenizer is not None else []
    pieces = (
        (ids[:MAX_TOKENS_SEEN], ids[-MAX_TOKENS_SEEN:]) if len(ids) > 2 * MAX_TOKENS_SEEN else (list(ids),)
    )
    total = getattr(state.logprobs_processor, "cumulative_logprob", None)
    return EngineTokens(pieces, total / len(ids) if total is not None and ids else None)


def _engine_ids(base: str, client: Any) -> list[str]:
    """Engine ids behind an engine client: vLLM appends the rank where there are several (`run_engine_core`)."""
    data_parallel = any(one.__name__ == "DPAsyncMPClient" for one in type(client).__mro__)
    if not data_parallel:
        return [base]
    return [_engine_id(base, _rank(identity)) for identity in client.core_engines]


def _engine_id(base: str, rank: int | None) -> str:
    return f"{base}_dp{rank}" if base and rank is not None else base


def _rank(identity: bytes) -> int:
    """Data-parallel rank out of an engine's identity (`MPClient`: two bytes, little-endian)."""
    return int.from_bytes(identity, "little")
