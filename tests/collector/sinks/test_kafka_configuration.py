"""What kafka-python is told; TLS and SASL also run against a real broker in tests/kafka."""

import socket
import ssl
from pathlib import Path

import pytest

from falseok_collector.settings import Settings, read_settings
from falseok_collector.sinks.kafka_configuration import (
    LIBRARIES,
    host_and_port,
    probe,
    producer_configuration,
    usable_compression,
)


def test_batches_are_idempotent_confirmed_by_all_and_compressed() -> None:
    """And nothing waits longer than the setting says."""
    told = producer_configuration(
        Settings(kafka_bootstrap_servers="a:1, b:2,", kafka_timeout_seconds=2.5, kafka_compression="gzip")
    )
    assert (["a:1", "b:2"], True, "all", "gzip") == (
        told["bootstrap_servers"],
        told["enable_idempotence"],
        told["acks"],
        told["compression_type"],
    )
    assert {2_500} == {
        told[name]
        for name in ("max_block_ms", "bootstrap_timeout_ms", "request_timeout_ms", "delivery_timeout_ms")
    }
    assert ("PLAINTEXT", None) == (told["security_protocol"], told["ssl_context"])
    assert "sasl_plain_password" not in told


def test_kafka_python_knows_every_argument() -> None:
    """A misspelt one would only show when a broker is there."""
    from kafka import KafkaProducer  # noqa: PLC0415 - extra `kafka`

    settings = Settings(kafka_security_protocol="SASL_SSL", kafka_sasl_username="u", kafka_sasl_password="p")  # noqa: S106 - no real one
    assert producer_configuration(settings).keys() <= KafkaProducer.DEFAULT_CONFIG.keys()


def test_sasl_over_tls_comes_from_the_environment_and_files(tmp_path: Path) -> None:
    """The password's file wins, without the line break editors add."""
    secret = tmp_path / "password"
    secret.write_text("open sesame\n", encoding="utf-8")
    settings = read_settings(
        {
            "FALSEOK_KAFKA_SECURITY_PROTOCOL": "sasl_ssl",
            "FALSEOK_KAFKA_SASL_MECHANISM": "scram-sha-512",
            "FALSEOK_KAFKA_SASL_USERNAME": "falseok",
            "FALSEOK_KAFKA_SASL_PASSWORD": "another",
            "FALSEOK_KAFKA_SASL_PASSWORD_FILE": str(secret),
            "FALSEOK_KAFKA_SSL_CHECK_HOSTNAME": "0",
        }
    )
    told = producer_configuration(settings)
    assert ("SASL_SSL", "SCRAM-SHA-512", "falseok", "open sesame") == (
        told["security_protocol"],
        told["sasl_mechanism"],
        told["sasl_plain_username"],
        told["sasl_plain_password"],
    )
    context = told["ssl_context"]
    assert (False, ssl.CERT_REQUIRED) == (context.check_hostname, context.verify_mode)
    assert ssl.TLSVersion.TLSv1_2 == context.minimum_version
    assert () == settings.problems


@pytest.mark.parametrize("field", ["kafka_ssl_cafile", "kafka_ssl_certfile"])
def test_a_file_that_is_not_there_is_an_error_of_the_connection(field: str) -> None:
    """The sink says so and events wait; the engine starts."""
    settings = read_settings(
        {"FALSEOK_KAFKA_SECURITY_PROTOCOL": "SSL", f"FALSEOK_{field.upper()}": "/no/such.pem"}
    )
    with pytest.raises(FileNotFoundError):
        producer_configuration(settings)


def test_a_codec_whose_library_is_missing_becomes_gzip(
    swallowed_errors: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events travel all the same, and the log says what to install."""
    monkeypatch.setitem(LIBRARIES, "snappy", ("no_such_module", "python-snappy"))
    assert "gzip" == usable_compression("snappy")
    assert [
        "falseok: FALSEOK_KAFKA_COMPRESSION=snappy needs `pip install python-snappy`; gzip is used"
    ] == swallowed_errors


@pytest.mark.parametrize(("name", "expected"), [("none", None), ("gzip", "gzip"), ("lz4", "lz4")])
def test_a_codec_that_is_there_is_used(name: str, expected: str | None) -> None:
    """`none` is for debugging on the wire."""
    assert expected == usable_compression(name)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("kafka:9093", ("kafka", 9093)),
        ("kafka", ("kafka", 9092)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
        ("::1", ("::1", 9092)),
    ],
)
def test_host_and_port(server: str, expected: tuple[str, int]) -> None:
    """As Kafka's clients write them."""
    assert expected == host_and_port(server)


def test_the_probe_finds_the_one_that_is_there() -> None:
    """One broker of several is enough."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port, gone = server.getsockname()[1], other.getsockname()[1]
        other.close()
        probe(Settings(kafka_bootstrap_servers=f"127.0.0.1:{gone},127.0.0.1:{port}"), None)
        with pytest.raises(ConnectionRefusedError):
            probe(Settings(kafka_bootstrap_servers=f"127.0.0.1:{gone}"), None)
    with pytest.raises(OSError, match="no bootstrap server is named"):
        probe(Settings(kafka_bootstrap_servers=","), None)


def test_secrets_show_in_no_representation() -> None:
    """Whoever logs the settings logs no password."""
    settings = Settings(salt="pepper", kafka_sasl_password="sesame", kafka_ssl_key_password="key")  # noqa: S106 - no real one
    shown = repr(settings) + str(settings) + f"{settings}"
    assert [] == [secret for secret in ("pepper", "sesame", "'key'") if secret in shown]
    assert "kafka_sasl_password=[redacted]" in shown
    assert "salt=''" in repr(Settings())
