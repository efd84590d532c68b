"""Who an event is about: request ids on both sides of vLLM's naming, transfers, traces, and the engine itself."""

import hashlib
import re

from opentelemetry import trace
from opentelemetry.trace import TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_CHILD = re.compile(r"^\d+_")
_ENDPOINT = re.compile(r"^(chatcmpl|cmpl)-")
_RANDOM_SUFFIX = re.compile(r"-[0-9a-f]{8}$")
_PROMPT_INDEX = re.compile(r"-\d+$")
_TOOL_ROUND = re.compile(r"_\d+$")
MAX_ID_CHARACTERS = 1_000
"""Longer ids are cut; the envelope takes 1,024 characters."""
_MAX_TRACESTATE = 32
"""Members that https://www.w3.org/TR/trace-context/ allows."""
_propagator = TraceContextTextMapPropagator()


def bounded_id(name: str) -> str:
    """The id itself, or where it is too long its beginning with a digest of the whole.

    Clients choose ids of any length; cut this way everywhere, two different ones stay different and one stays one.
    """
    if len(name) <= MAX_ID_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{name[: MAX_ID_CHARACTERS - 33]}~{digest}"


def external_id_of(internal_id: str) -> str:
    """The id a client or router sent, out of vLLM's internal id.

    vLLM builds `[<choice>_](chatcmpl|cmpl)-<id>[-<prompt index>]-<8 hex>`
    (`InputProcessor.assign_request_id`, serving classes of the OpenAI front end; 0.26 to 0.33). The responses API
    builds `<request_id of the body>_<tool round>-<8 hex>` and puts nothing before it.
    """
    name = _RANDOM_SUFFIX.sub("", _CHILD.sub("", internal_id))
    endpoint = _ENDPOINT.match(name)
    if endpoint is None:
        return _TOOL_ROUND.sub("", name)
    name = name[endpoint.end() :]
    return _PROMPT_INDEX.sub("", name) if endpoint.group(1) == "cmpl" else name


def transfer_id_of(engine_id: str, request_id: str) -> str:
    """Name of a transfer, `<producer engine id>/<producer internal request id>`; empty when a part is unknown."""
    return f"{engine_id}/{bounded_id(request_id)}" if engine_id and request_id else ""


def trace_ids(traceparent: str) -> tuple[str, str]:
    """Trace id and span id in hex out of a W3C `traceparent`; empty strings when it is absent or invalid."""
    if not traceparent:
        return "", ""
    span = trace.get_current_span(_propagator.extract({"traceparent": traceparent})).get_span_context()
    if not span.is_valid:
        return "", ""
    return f"{span.trace_id:032x}", f"{span.span_id:016x}"


def tracestate_valid(tracestate: str) -> bool | None:
    """Whether a W3C `tracestate` header can be read; None when there is none."""
    if not tracestate.strip():
        return None
    members = [member for member in tracestate.split(",") if member.strip()]
    return len(members) <= _MAX_TRACESTATE and len(TraceState.from_header([tracestate])) == len(members)
