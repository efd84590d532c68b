"""Settings of the service that come from the environment, beside the collector's `FALSEOK_KAFKA_*`, which it shares.

Unlike the collector, which never stops an engine, the service refuses to start on settings it cannot follow.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from falseok.errors import CliError
from falseok_collector.settings import Settings, read_settings
from falseok_collector.sinks.kafka_configuration import client_configuration

PREFIX = "FALSEOK_"


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is an environment variable of the same name in capitals, with the prefix `FALSEOK_`."""

    store_url: str = ""
    """ClickHouse server to store in and to ask, such as `clickhouses://clickhouse:8443/falseok`; empty: the data
    directory's own store. `clickhouses` speaks TLS."""
    store_username: str = "default"
    """User of that server."""
    store_password: str = ""
    """Its password. Never shown."""
    store_password_file: str = ""
    """File that holds the password; wins over `store_password`."""
    store_cafile: str = ""
    """PEM file of the authorities that may have signed the server's certificate; empty: the usual ones."""
    kafka_group: str = "falseok.pipeline"
    """Consumer group; the pipelines of one group share the partitions."""
    kafka_instance_id: str = ""
    """Name of this pipeline that outlives its restarts, unique in the group: killed and started again, it gets its
    partitions back at once. Empty: they wait for `kafka_session_timeout_seconds`."""
    kafka_session_timeout_seconds: float = 10.0
    """After so long without a sign of life a pipeline's partitions go to the others; the brokers allow 6 to 1,800."""
    kafka_dead_letter_topic: str = "falseok.deadletters.v1"
    """Topic that dead letters are also written to; `none` for no topic."""
    kafka_otlp_topic: str = ""
    """Topic to which OpenTelemetry Collectors write events as log records (`otlp_proto`); empty: none."""
    metrics_address: str = ""
    """`host:port` on which Prometheus finds `/metrics`; empty: no metrics over HTTP."""

    def __repr__(self) -> str:
        """Without the password: a representation ends up in logs."""
        shown = msgspec.structs.replace(self, store_password="[redacted]" if self.store_password else "")
        fields = msgspec.structs.asdict(shown).items()
        return f"ServiceSettings({', '.join(f'{name}={value!r}' for name, value in fields)})"


def read_service_settings(environment: Mapping[str, str] | None = None) -> ServiceSettings:
    """The settings of this process. Raises `CliError` when the password's file cannot be read."""
    environment = os.environ if environment is None else environment
    given: dict[str, Any] = {
        field: environment[variable]
        for field in ServiceSettings.__struct_fields__
        if environment.get(variable := f"{PREFIX}{field.upper()}")
    }
    file = given.get("store_password_file")
    if file:
        try:
            given["store_password"] = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(
                f"FALSEOK_STORE_PASSWORD_FILE={file} cannot be read: {error}",
                hint="Name a file that holds the password and nothing else.",
            ) from error
    try:
        return msgspec.convert(given, ServiceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise CliError(
            f"A FALSEOK_ setting cannot be followed: {error}", hint="`docs/settings.md` has them all."
        ) from error


def kafka_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The `FALSEOK_KAFKA_*` settings. Raises `CliError` naming every one that cannot be followed."""
    settings = read_settings(environment)
    problems = [problem for problem in settings.problems if "KAFKA" in problem]
    if problems:
        raise CliError(
            "; ".join(problems) + ".", hint="Correct the variables; `docs/settings.md` has them all."
        )
    return settings


def kafka_client(settings: Settings) -> dict[str, Any]:
    """What kafka-python needs to reach the brokers; holds secrets. Raises `CliError` for a certificate or key."""
    try:
        return client_configuration(settings)
    except OSError as error:
        raise CliError(
            f"A certificate or key for Kafka cannot be used: {error}",
            hint="Check FALSEOK_KAFKA_SSL_CAFILE, FALSEOK_KAFKA_SSL_CERTFILE and FALSEOK_KAFKA_SSL_KEYFILE.",
        ) from error
