"""An OTLP receiver over HTTP and one over gRPC: they decode the real protobuf and can be told to refuse."""

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Receiver:
    """What was received: one pair of resource attributes and log record an event."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.code = ""
        """Over gRPC: name of the status code to refuse with; empty to take everything."""
        self.most_events = 1_000_000
        """Requests with more events are too large."""
        self.requests = 0
        self.records: list[tuple[dict[str, Any], Any]] = []

    def take(self, request: Any) -> None:
        """Keep the log records of an `ExportLogsServiceRequest`."""
        for resource_logs in request.resource_logs:
            resource = attributes(resource_logs.resource.attributes)
            for scope_logs in resource_logs.scope_logs:
                self.records += [(resource, record) for record in scope_logs.log_records]

    def ids(self) -> list[str]:
        """Ids of the events, in order of arrival."""
        return [attributes(record.attributes)["falseok.id"] for _, record in self.records]


def count(request: Any) -> int:
    """Log records of a request."""
    return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)


def attributes(pairs: Any) -> dict[str, Any]:
    """OTLP's key-value pairs as Python values."""
    return {pair.key: value(pair.value) for pair in pairs}


def value(any_value: Any) -> Any:
    """An OTLP `AnyValue` as a Python value."""
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(item) for item in any_value.array_value.values]
    if kind == "kvlist_value":
        return attributes(any_value.kvlist_value.values)
    return getattr(any_value, kind) if kind else None


@contextmanager
def http_receiver(port: int = 0) -> Iterator[Receiver]:
    """A receiver at `url`; ended on leaving, so that the port refuses connections."""
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2  # noqa: PLC0415 - extra `otlp`

    messages: Any = logs_service_pb2  # generated code has no types
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.requests += 1
            request = messages.ExportLogsServiceRequest()
            request.ParseFromString(body)
            status = 413 if count(request) > receiver.most_events else receiver.status
            if status == 200:
                receiver.take(request)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Not a word."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def grpc_receiver(*options: tuple[str, int]) -> Iterator[Receiver]:
    """The same over gRPC, with options of the server."""
    import grpc  # noqa: PLC0415 - extra `otlp`
    from opentelemetry.proto.collector.logs.v1 import (  # noqa: PLC0415 - as above
        logs_service_pb2,
        logs_service_pb2_grpc,
    )

    receiver = Receiver()
    generated: Any = logs_service_pb2_grpc
    messages: Any = logs_service_pb2

    class Service(generated.LogsServiceServicer):  # type: ignore[misc] # generated code has no types
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name in the protocol
            receiver.requests += 1
            if receiver.code:
                context.abort(grpc.StatusCode[receiver.code], "as the test wants it")
            receiver.take(request)
            return messages.ExportLogsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(max_workers=2), options=options)
    generated.add_LogsServiceServicer_to_server(Service(), server)
    receiver.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()
