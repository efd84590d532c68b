"""Lines of events as OpenTelemetry log records. Imports the SDK: only the OTLP sink's own thread may import it."""

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)
from opentelemetry.util.types import AnyValue

from falseok_collector.events import CONTRACT_VERSION, ENVELOPE_FIELDS, Envelope, decode

SERVICE = "falseok-collector"
"""`service.name` unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES give one."""
SCOPE = InstrumentationScope("falseok_collector", str(CONTRACT_VERSION))
_ELSEWHERE = frozenset({"ts", "name", "host", "pid", "trace_id", "span_id", "attrs"})
"""Envelope fields that a log record or its resource has a place for."""
_INT64 = range(-(2**63), 2**63)


def resource_of(boot: str) -> Resource:
    """This process, with what the environment says about it; the environment wins."""
    ours: dict[str, AnyValue] = {
        SERVICE_INSTANCE_ID: boot,
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }
    resource = Resource.create().merge(Resource(ours)).merge(OTELResourceDetector().detect())
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
    return resource


def record_of(line: bytes, resource: Resource) -> ReadableLogRecord:
    """One event as a log record: event name, times, trace context, `falseok.<envelope field>`, `falseok.attrs.<field>`.

    Raises `msgspec.DecodeError` for a line that is no event.
    """
    envelope = decode(line)
    record = LogRecord(
        timestamp=envelope.ts * 1_000,
        observed_timestamp=time.time_ns(),
        context=_context(envelope),
        severity_number=SeverityNumber.INFO,
        severity_text="INFO",
        event_name=envelope.name,
        attributes=_attributes(envelope),
    )
    return ReadableLogRecord(record, resource, SCOPE)


def _context(envelope: Envelope) -> Context:
    if not envelope.trace_id or not envelope.span_id:
        return Context()  # not the current one: the sink's thread has nothing to do with the request
    span = SpanContext(
        trace_id=int(envelope.trace_id, 16),
        span_id=int(envelope.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags.get_default(),
    )
    assert format_trace_id(span.trace_id) == envelope.trace_id  # noqa: S101 - both are fixed width
    assert format_span_id(span.span_id) == envelope.span_id  # noqa: S101 - as above
    return set_span_in_context(NonRecordingSpan(span), Context())


def _attributes(envelope: Envelope) -> dict[str, Any]:
    defaults = Envelope.__struct_defaults__
    optional = dict(zip(ENVELOPE_FIELDS[-len(defaults) :], defaults, strict=True))
    fields = {
        f"falseok.{name}": value
        for name in ENVELOPE_FIELDS
        if name not in _ELSEWHERE and (value := getattr(envelope, name)) != optional.get(name)
    }
    own: Mapping[str, Any] = msgspec.json.decode(bytes(envelope.attrs), type=dict[str, Any])
    fields |= {f"falseok.attrs.{name}": value for name, value in own.items() if value is not None}
    return {name: _value(value) for name, value in fields.items()}


def _value(value: Any) -> Any:
    """A value OTLP has a type for: it knows no integers beyond 64 bits."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and value not in _INT64:
        return str(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _value(item) for name, item in value.items()}
    return value
