"""The OTLP sink: events as OpenTelemetry log records, by OTLP over HTTP or gRPC, as OTEL_EXPORTER_OTLP_* say.

The outlet is the batch processor: it queues, batches and retries. The SDK's own would start its thread again in
every forked child and lose what an export failed with; here a batch is offered until the receiver takes it, and
what the bounded queue could not hold meanwhile is counted as lost. A batch that the receiver refuses for good is lost
and counted; one that is too large for it is halved until it fits.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
from opentelemetry import context

from falseok_collector.sinks import Sink

logger = logging.getLogger("falseok")

EXPORT_EVENTS = 512
"""Log records in one request, as the SDK's batch processor has it."""
_RETRYABLE = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


_GRPC_REFUSALS = frozenset(
    {
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "FAILED_PRECONDITION",
        "UNIMPLEMENTED",
        "UNAUTHENTICATED",
    }
)
"""Codes that speak of the request itself; the OTLP specification lists none of them as worth a retry. `INTERNAL` and
`UNKNOWN` are not worth one either there, but are what a receiver in trouble answers, as 500 is over HTTP."""
_GRPC_TOO_LARGE = "larger than max"
"""From gRPC's own message; its code, RESOURCE_EXHAUSTED, may also mean a quota."""


class Outcome(StrEnum):
    """What became of a batch that was sent."""

    TAKEN = "taken"
    AWAY = "away"
    """Not taken, or nobody knows: offer it again."""
    REFUSED = "refused"
    """For good: offering it again is no use."""
    TOO_LARGE = "too_large"
    """For good as it is; a part of it may be taken."""


class Export(Protocol):
    """A way to a receiver."""

    def send(self, lines: Sequence[bytes]) -> Outcome:
        """Send events. Blocks for OTEL_EXPORTER_OTLP_TIMEOUT at most."""
        ...

    def shutdown(self) -> None:
        """End; a `send` that waits to try again comes back."""
        ...


class OtlpSink(Sink):
    """Sends events from the outlet's thread; see the module."""

    name = "otlp"

    def __init__(self, boot: str, *, connect: Callable[[str], Export] | None = None) -> None:
        super().__init__()
        self._boot = boot
        self._connect = connect or OtlpExport
        self._export: Export | None = None
        self._batch: list[bytes] = []
        self._confirmed = 0
        self._in_trouble = False

    def write(self, lines: list[bytes]) -> None:
        """Send the lines; what of them was confirmed is not sent again when they are offered again.

        Raises `ConnectionError` when the receiver does not take them.
        """
        if lines is not self._batch:
            self._batch, self._confirmed = lines, 0
        if self._export is None:
            self._export = self._connect(self._boot)
        size = EXPORT_EVENTS
        while self._confirmed < len(lines):
            part = lines[self._confirmed : self._confirmed + size]
            outcome = self._export.send(part)
            self._in_trouble = outcome is Outcome.AWAY
            if self._in_trouble:
                raise ConnectionError(errno.EIO, "the OTLP receiver does not take events")
            if outcome is Outcome.TOO_LARGE and len(part) > 1:
                size = len(part) // 2
                continue
            if outcome is Outcome.TAKEN:
                self.counts.sent += len(part)
            else:
                self._lose(part)
            self._confirmed += len(part)
        self._batch = []

    def hurry(self) -> None:
        """See `Sink.hurry`: a receiver that is away is not waited for any more."""
        if self._in_trouble and self._export is not None:
            with contextlib.suppress(Exception):
                self._export.shutdown()

    def close(self) -> None:
        """Let go of the connection."""
        if self._export is not None and not self._in_trouble:
            self._export.shutdown()
        self._export = None

    def abandon(self) -> None:
        """See `Sink.abandon`. There is no thread to end."""
        self._export = None

    def _lose(self, part: Sequence[bytes]) -> None:
        if not self.counts.lost:
            logger.warning("falseok: the OTLP receiver refuses events for good; they are lost and counted")
        self.counts.lost += len(part)
        self.counts.errors += 1
        self.counts.last_error = "RefusedByReceiver"


class OtlpExport:
    """The SDK's exporter for log records, chosen by OTEL_EXPORTER_OTLP_LOGS_PROTOCOL or OTEL_EXPORTER_OTLP_PROTOCOL."""

    def __init__(self, boot: str) -> None:
        """Raises `ImportError` when the exporter's package is not installed."""
        from falseok_collector.sinks import otlp_records  # noqa: PLC0415 - imports the SDK

        _keep_library_quiet()
        self._answer = Outcome.AWAY
        """What the receiver's last answer means if the exporter says that it failed."""
        self._record_of = otlp_records.record_of
        self._resource = otlp_records.resource_of(boot)
        self._exporter = self._grpc() if protocol() == "grpc" else self._http()

    def send(self, lines: Sequence[bytes]) -> Outcome:
        """See `Export.send`."""
        from opentelemetry.sdk._logs.export import LogRecordExportResult  # noqa: PLC0415 - only once it is needed

        self._answer = Outcome.AWAY
        records = []
        for line in lines:
            with contextlib.suppress(
                msgspec.DecodeError
            ):  # our own encoder wrote it; nothing else comes here
                records.append(self._record_of(line, self._resource))
        # Engines may be traced by automatic instrumentation: our own requests are no business of theirs.
        token = context.attach(context.set_value(context._SUPPRESS_INSTRUMENTATION_KEY, value=True))  # noqa: SLF001 - the SDK's processors do the same
        try:
            taken = self._exporter.export(records) is LogRecordExportResult.SUCCESS
            return Outcome.TAKEN if taken else self._answer
        finally:
            context.detach(token)

    def shutdown(self) -> None:
        """See `Export.shutdown`."""
        self._exporter.shutdown()

    def _http(self) -> Any:
        import requests  # noqa: PLC0415 - as above
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415 - as above

        session = requests.Session()
        session.hooks["response"].append(self._look)
        return OTLPLogExporter(session=session)

    def _grpc(self) -> Any:
        import grpc  # noqa: PLC0415 - as above
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter  # noqa: PLC0415 - as above

        look = self._look_at_call

        class Look(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc] # grpc has no types
            def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
                call = continuation(details, request)
                look(call)
                return call

        class Exporter(OTLPLogExporter):
            def _initialize_channel_and_stub(self) -> None:
                # The exporter connects anew by this when its receiver was away. It takes no interceptors, and tells no
                # code; where a later release renames this, refusals are offered again, and the test of that fails.
                super()._initialize_channel_and_stub()  # type: ignore[no-untyped-call]
                self._channel = grpc.intercept_channel(self._channel, Look())
                self._client = self._stub(self._channel)

        # A receiver that is away is worth a second try at once; everything else is offered again by the outlet.
        return Exporter(retryable_error_codes=[grpc.StatusCode.UNAVAILABLE])

    def _look(self, response: Any, *_: Any, **__: Any) -> None:
        """The exporter tells "failed" and no more; an answer that says the request is wrong will not change."""
        status = int(response.status_code)
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            self._answer = Outcome.TOO_LARGE
        elif HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _RETRYABLE:
            self._answer = Outcome.REFUSED
        else:
            self._answer = Outcome.AWAY

    def _look_at_call(self, call: Any) -> None:
        """The same over gRPC. Waits for the answer, as the exporter would next."""
        code = getattr(call.code(), "name", "")
        if code in _GRPC_REFUSALS:
            self._answer = Outcome.REFUSED
        elif code == "RESOURCE_EXHAUSTED" and _GRPC_TOO_LARGE in str(call.details()):
            self._answer = Outcome.TOO_LARGE
        else:
            self._answer = Outcome.AWAY


def protocol() -> str:
    """`grpc` or `http/protobuf`, by the usual variables; anything else counts as the latter."""
    given = os.environ.get("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    return "grpc" if (given or "").strip().lower() == "grpc" else "http/protobuf"


def modules() -> tuple[str, ...]:
    """What has to be installed, the exporter for the protocol included."""
    package = "grpc" if protocol() == "grpc" else "http"
    return "opentelemetry.sdk._logs", f"opentelemetry.exporter.otlp.proto.{package}"


def _keep_library_quiet() -> None:
    """The exporters report every failed attempt: where logging is not configured, our own words are enough."""
    library = logging.getLogger("opentelemetry")
    if not library.handlers:
        library.addHandler(logging.NullHandler())
