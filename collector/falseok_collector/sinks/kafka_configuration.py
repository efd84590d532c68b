"""What the Kafka client is told, out of the settings, and whether a broker is there at all. Imports no Kafka library."""

import importlib.util
import logging
import socket
import ssl
from typing import Any

from falseok_collector.settings import Settings

logger = logging.getLogger("falseok")

LIBRARIES = {"lz4": ("lz4", "lz4"), "snappy": ("snappy", "python-snappy"), "zstd": ("zstandard", "zstandard")}
"""Module that a compression needs besides kafka-python, and the package that has it."""
_BATCH_BYTES = 512 * 1024
_REQUEST_BYTES = 4 * 1024 * 1024
_RECONNECT_MS_MAX = 1_000
_PROBE_SECONDS = 1.0
_DEFAULT_PORT = 9092


def producer_configuration(settings: Settings) -> dict[str, Any]:
    """Arguments of kafka-python's producer. Holds the secrets: never log it.

    Raises `OSError` (also `ssl.SSLError`) when a certificate or key cannot be read.
    """
    timeout_ms = int(settings.kafka_timeout_seconds * 1_000)
    return {
        **client_configuration(settings),
        "client_id": "falseok-collector",
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": usable_compression(settings.kafka_compression),
        "batch_size": _BATCH_BYTES,
        "max_request_size": _REQUEST_BYTES,
        "max_block_ms": timeout_ms,
        "bootstrap_timeout_ms": timeout_ms,
        "request_timeout_ms": timeout_ms,
        "delivery_timeout_ms": timeout_ms,
        "reconnect_backoff_max_ms": _RECONNECT_MS_MAX,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


def client_configuration(settings: Settings) -> dict[str, Any]:
    """How any client of kafka-python's reaches the brokers, trusts them and says who it is.

    Holds the secrets: never log it. Raises `OSError` as `producer_configuration`.
    """
    configuration: dict[str, Any] = {
        "bootstrap_servers": servers(settings),
        "security_protocol": settings.kafka_security_protocol,
        "ssl_context": tls_context(settings),
    }
    if settings.kafka_security_protocol.startswith("SASL_"):
        configuration |= {
            "sasl_mechanism": settings.kafka_sasl_mechanism,
            "sasl_plain_username": settings.kafka_sasl_username,
            "sasl_plain_password": settings.kafka_sasl_password,
        }
    return configuration


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """How TLS is spoken, or None for a protocol without it. Raises `OSError` when a file cannot be used."""
    if not settings.kafka_security_protocol.endswith("SSL"):
        return None
    context = ssl.create_default_context(cafile=settings.kafka_ssl_cafile or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.kafka_ssl_check_hostname
    if settings.kafka_ssl_certfile:
        # An empty password is given, not None: OpenSSL would ask for one on the terminal.
        context.load_cert_chain(
            settings.kafka_ssl_certfile,
            settings.kafka_ssl_keyfile or None,
            settings.kafka_ssl_key_password,
        )
    return context


def usable_compression(name: str) -> str | None:
    """The codec if its library is there, else gzip, which always is; None for no compression."""
    module, package = LIBRARIES.get(name, (None, ""))
    if module is not None and importlib.util.find_spec(module) is None:
        logger.warning(
            "falseok: FALSEOK_KAFKA_COMPRESSION=%s needs `pip install %s`; gzip is used", name, package
        )
        return "gzip"
    return None if name == "none" else name


def servers(settings: Settings) -> list[str]:
    """The bootstrap servers, one by one."""
    return [server.strip() for server in settings.kafka_bootstrap_servers.split(",") if server.strip()]


def probe(settings: Settings, context: ssl.SSLContext | None) -> None:
    """Return if a broker accepts a connection, with TLS where it is wanted; raise `OSError` if none does.

    kafka-python would try for its whole time-out and log every attempt, and keeps the reason to itself.
    """
    failure = OSError("no bootstrap server is named")
    for server in servers(settings):
        host, port = host_and_port(server)
        try:
            with socket.create_connection((host, port), timeout=_PROBE_SECONDS) as plain:
                if context is not None:
                    context.wrap_socket(plain, server_hostname=host).close()
        except OSError as error:
            failure = error
        else:
            return
    raise failure


def host_and_port(server: str) -> tuple[str, int]:
    """`host:port`, `host`, `[IPv6]:port` or `IPv6` taken apart; the port defaults to Kafka's."""
    host, colon, port = server.rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.endswith("]")):
        return server.strip("[]"), _DEFAULT_PORT
    return host.strip("[]"), int(port)
