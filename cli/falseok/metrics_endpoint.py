"""Where the service's own metrics go: `/metrics` for Prometheus, and OTLP where an endpoint is named.

Both come from one set of instruments (`falseok_pipeline.service_metrics`) through the OpenTelemetry SDK.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from falseok.entry import installed_version
from falseok.errors import CliError
from falseok_collector.sinks.kafka_configuration import host_and_port

OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@contextmanager
def serving_metrics(address: str) -> Iterator[None]:
    """Serve and send metrics until the block ends; does nothing when neither an address nor an endpoint is named.

    Instruments made before the block begins are not seen. Raises `CliError` when the address cannot be listened on.
    """
    to_otlp = any(os.environ.get(variable) for variable in OTLP_VARIABLES)
    if not address and not to_otlp:
        yield
        return
    # Imported late: the libraries are needed, and take their time, only here.
    import prometheus_client  # noqa: PLC0415
    from opentelemetry import metrics  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415

    readers: list[MetricReader] = []
    server = None
    if address:
        readers.append(PrometheusMetricReader())
        host, port = _parsed(address)
        try:
            server, _thread = prometheus_client.start_http_server(port, addr=host)
        except OSError as error:
            raise CliError(
                f"/metrics cannot be served on {address}: {error.strerror or error}",
                hint="Name a free address with --metrics or FALSEOK_METRICS_ADDRESS.",
            ) from error
    if to_otlp:
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    resource = Resource.create({"service.name": "falseok-pipeline", "service.version": installed_version()})
    provider = MeterProvider(readers, resource)
    metrics.set_meter_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
        if server is not None:
            server.shutdown()
            server.server_close()


def _parsed(address: str) -> tuple[str, int]:
    if ":" not in address:
        raise CliError(f"{address} is not HOST:PORT.", hint="For example: --metrics 127.0.0.1:9464")
    host, port = host_and_port(address)
    return host or "127.0.0.1", port
