"""Events that travelled as OpenTelemetry log records, back as lines: what an OpenTelemetry Collector's Kafka exporter
writes with encoding `otlp_proto`, one serialised `ExportLogsServiceRequest` a message.

The way there is `falseok_collector.sinks.otlp_records`. Records without `falseok.id` are other people's logs and are
passed over; what a record of ours says is judged afterwards, like any other line.
"""

import base64
import math
from collections.abc import Iterable
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs

from falseok_pipeline.dead_letters import DeadLetter, Reason

_FIELD = "falseok."
_OWN = "falseok.attrs."
_ID = "falseok.id"
_EVENT_NAME = "event.name"


def lines_of_records(value: bytes | None, place: str) -> tuple[bytes, tuple[DeadLetter, ...]]:
    """The lines of a message's records in order. A `Decoder`: never raises; a message that is no such request is one
    dead letter with all its bytes.
    """
    request = _request(value or b"")
    if request is None:
        message = "the message is no OTLP request of log records (encoding otlp_proto)"
        return b"", (DeadLetter(Reason.NOT_OTLP, message, place, 0, value or b""),)
    lines = [line for resource in request.resource_logs for line in _lines(resource)]
    return b"".join(lines), ()


def _request(value: bytes) -> ExportLogsServiceRequest | None:
    try:
        request = ExportLogsServiceRequest.FromString(value)
    except (DecodeError, RecursionError):
        return None
    # Bytes of another kind can pass for a request that has nothing but fields nobody knows.
    return request if request.resource_logs or not value else None


def _lines(resource_logs: ResourceLogs) -> Iterable[bytes]:
    resource = _attributes(resource_logs.resource.attributes)
    process = {"host": resource.get("host.name"), "pid": resource.get("process.pid")}
    for scope in resource_logs.scope_logs:
        for record in scope.log_records:
            attributes = _attributes(record.attributes)
            if _ID in attributes:
                yield msgspec.json.encode(_event(record, attributes, process)) + b"\n"


def _event(record: LogRecord, attributes: dict[str, Any], process: dict[str, Any]) -> dict[str, Any]:
    """The event as its line has it; whether it is a good one is not decided here."""
    event: dict[str, Any] = {
        "ts": (record.time_unix_nano or record.observed_time_unix_nano) // 1_000,
        # Collectors older than the field keep the name as an attribute.
        "name": record.event_name or attributes.get(_EVENT_NAME, ""),
        **{name: value for name, value in process.items() if value is not None},
    }
    if record.trace_id:
        event["trace_id"] = record.trace_id.hex()
    if record.span_id:
        event["span_id"] = record.span_id.hex()
    own: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(_OWN):
            own[name.removeprefix(_OWN)] = value
        elif name.startswith(_FIELD):
            event[name.removeprefix(_FIELD)] = value
    return {**event, "attrs": own}


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    """As JSON has it. The parser has bounded the depth (protobuf: 100)."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind == "double_value":
        return value.double_value if math.isfinite(value.double_value) else None
    return getattr(value, kind) if kind else None
