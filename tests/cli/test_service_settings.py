"""Settings of the service: followed, or refused in words; secrets from files and never shown."""

from pathlib import Path

import pytest

from falseok.errors import CliError
from falseok.service_settings import (
    PREFIX,
    ServiceSettings,
    kafka_client,
    kafka_settings,
    read_service_settings,
)
from falseok_collector.settings import SERVICE_VARIABLES, read_settings


def test_nothing_set_is_the_embedded_store() -> None:
    """And no metrics, no OTLP topic, dead letters on their usual topic."""
    settings = read_service_settings({})
    assert ("", "", "") == (settings.store_url, settings.metrics_address, settings.kafka_otlp_topic)
    assert "falseok.deadletters.v1" == settings.kafka_dead_letter_topic


def test_a_password_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    """The file wins; no representation has it."""
    (tmp_path / "password").write_text("hunter2\n")
    settings = read_service_settings(
        {"FALSEOK_STORE_PASSWORD": "other", "FALSEOK_STORE_PASSWORD_FILE": str(tmp_path / "password")}
    )
    assert "hunter2" == settings.store_password
    assert "hunter2" not in repr(settings)
    with pytest.raises(CliError, match="cannot be read"):
        read_service_settings({"FALSEOK_STORE_PASSWORD_FILE": str(tmp_path / "none")})


def test_what_cannot_be_followed_is_refused() -> None:
    """The service does not start on half its settings, unlike the collector."""
    with pytest.raises(CliError, match="kafka_session_timeout_seconds"):
        read_service_settings({"FALSEOK_KAFKA_SESSION_TIMEOUT_SECONDS": "soon"})
    with pytest.raises(CliError, match="KAFKA_COMPRESSION"):
        kafka_settings({"FALSEOK_KAFKA_COMPRESSION": "rar"})
    broken = read_settings(
        {"FALSEOK_KAFKA_SECURITY_PROTOCOL": "SSL", "FALSEOK_KAFKA_SSL_CAFILE": "/no/such.pem"}
    )
    with pytest.raises(CliError, match="certificate"):
        kafka_client(broken)


def test_a_collector_knows_the_services_variables() -> None:
    """Both read one environment: what is the other's is no unknown setting."""
    ours = {f"{PREFIX}{field.upper()}" for field in ServiceSettings.__struct_fields__}
    assert ours <= SERVICE_VARIABLES
    assert () == tuple(read_settings(dict.fromkeys(ours, "x")).problems)
