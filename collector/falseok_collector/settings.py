"""Settings of the collector: `FALSEOK_*` environment variables over an optional TOML file, read once a process.

Wrong settings never stop an engine: each one is replaced by its default and named in `Settings.problems`.
"""

import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

PREFIX = "FALSEOK_"
CONFIG_VARIABLE = "FALSEOK_CONFIG"
KNOWN_SINKS = ("spool", "kafka", "otlp", "memory")
SERVICE_VARIABLES = frozenset(
    {
        "FALSEOK_CONFIG",
        "FALSEOK_DATA",
        "FALSEOK_LAB_CACHE",
        "FALSEOK_KAFKA_DEAD_LETTER_TOPIC",
        "FALSEOK_KAFKA_GROUP",
        "FALSEOK_KAFKA_INSTANCE_ID",
        "FALSEOK_KAFKA_OTLP_TOPIC",
        "FALSEOK_KAFKA_SESSION_TIMEOUT_SECONDS",
        "FALSEOK_METRICS_ADDRESS",
        "FALSEOK_STORE_CAFILE",
        "FALSEOK_STORE_CLUSTER",
        "FALSEOK_STORE_PASSWORD",
        "FALSEOK_STORE_PASSWORD_FILE",
        "FALSEOK_STORE_REPLICATED",
        "FALSEOK_STORE_SHARDED",
        "FALSEOK_STORE_URL",
        "FALSEOK_STORE_USERNAME",
    }
)
"""Variables that are ours but are not settings of the collector."""
SECRETS = {
    "salt": "salt_file",
    "kafka_sasl_password": "kafka_sasl_password_file",
    "kafka_ssl_key_password": "kafka_ssl_key_password_file",
}
"""Settings that are never shown, with the setting that names a file to read each from."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
COMPRESSIONS = ("none", "gzip", "lz4", "snappy", "zstd")
_INT64_MAX = 2**63 - 1
_CAPTURED_BYTES_MAX = 65_536
_SECONDS_MAX = 3_600
_LEAST_SECONDS = {"flush_seconds": 0.005, "heartbeat_seconds": 0.05, "kafka_timeout_seconds": 0.5}
"""Waking up more often costs a process more than it gains a reader; no broker answers sooner for certain."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the collector does in this process.

    Every field is an environment variable of the same name in capitals with the prefix `FALSEOK_`,
    and a key of the same name in the TOML file named by `FALSEOK_CONFIG`.
    """

    enabled: bool = True
    """0 turns the collector off entirely: nothing is wrapped, nothing is started."""
    sinks: tuple[str, ...] = ("spool",)
    """Where events go: spool, kafka, otlp, memory. Several at once are allowed; see sinks.md."""
    spool_dir: str = ""
    """Directory of the spool; empty: `spool` below FALSEOK_DATA, else below the user's data directory."""
    spool_max_bytes: int = 1024**3
    """Bound of the whole spool directory. Past it the oldest finished segments are dropped and counted."""
    spool_segment_bytes: int = 16 * 1024**2
    """Size at which a new segment is begun."""
    kafka_bootstrap_servers: str = "localhost:9092"
    """Brokers to ask for the cluster first: `host:port`, several separated by commas."""
    kafka_topic: str = "falseok.events.v1"
    """Topic of all events, keyed by engine id."""
    kafka_engines_topic: str = "falseok.engines.v1"
    """Compacted topic of the copies of `engine.config`, keyed by engine id."""
    kafka_compression: str = "lz4"
    """none, gzip, lz4, snappy or zstd; gzip is used when a codec's library is missing."""
    kafka_timeout_seconds: float = 5.0
    """How long the brokers may take to confirm a batch before events go to the sink's own spool; at least 0.5."""
    kafka_security_protocol: str = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    kafka_sasl_mechanism: str = "PLAIN"
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; counts with a SASL protocol."""
    kafka_sasl_username: str = ""
    """User name for SASL."""
    kafka_sasl_password: str = ""
    """Password for SASL. Never shown."""
    kafka_sasl_password_file: str = ""
    """File that holds the password; wins over `kafka_sasl_password`."""
    kafka_ssl_cafile: str = ""
    """PEM file of the authorities that may have signed the brokers' certificates; empty: the system's."""
    kafka_ssl_certfile: str = ""
    """PEM file of the client's certificate, for mutual TLS."""
    kafka_ssl_keyfile: str = ""
    """PEM file of the client's private key."""
    kafka_ssl_key_password: str = ""
    """Password of the private key. Never shown."""
    kafka_ssl_key_password_file: str = ""
    """File that holds the private key's password; wins over `kafka_ssl_key_password`."""
    kafka_ssl_check_hostname: bool = True
    """0 accepts a broker whose certificate names another host."""
    engine_group: str = ""
    """Name of the deployment this engine belongs to; empty: its side channel's host:port."""
    salt: str = ""
    """Fleet-wide secret for keyed hashes. Hashes of engines with different salts cannot be compared."""
    salt_file: str = ""
    """File that holds the salt; wins over `salt`."""
    ring_events: int = 65_536
    """Events kept in memory before they are encoded, and encoded ones kept for each sink in trouble (32 MiB at most).
    Past it new events are dropped and counted."""
    flush_seconds: float = 0.05
    """How often the sender thread hands events to the sinks, and a quarter as often while there are none; less than
    0.005 is raised to that."""
    heartbeat_seconds: float = 5.0
    """How often `collector.heartbeat` is sent; less than 0.05 is raised to that."""
    text_features: bool = True
    """0 leaves out the numbers about an answer's text (docs/text-features.md). No text leaves the process for them."""
    capture_text: bool = False
    """1 puts the text of answers into `api.response`, redacted and cut. Whoever reads the events then reads what users
    were answered: `falseok status` shows which processes do so. Prompts are never captured."""
    capture_text_max_bytes: int = 4_096
    """Bytes of text captured of one answer, over all its choices; at most 65,536."""
    raise_in_hooks: bool = False
    """Test aid: every hook raises inside. Serving must not notice."""
    problems: tuple[str, ...] = ()
    """What was wrong with the settings as given, one sentence each."""

    def __repr__(self) -> str:
        """Without secrets: a representation ends up in logs."""
        fields = ", ".join(
            f"{name}={'[redacted]' if name in SECRETS and value else repr(value)}"
            for name, value in msgspec.structs.asdict(self).items()
        )
        return f"Settings({fields})"


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process. Never raises; see `Settings.problems`."""
    environment = os.environ if environment is None else environment
    problems: list[str] = []
    given = {**_from_file(environment, problems), **_from_environment(environment, problems)}
    accepted: dict[str, Any] = {}
    for key, value in given.items():
        try:
            accepted[key] = _PARSERS[key](value)
        except (TypeError, ValueError) as error:
            shown = "" if key in SECRETS else f"={value!r}"
            problems.append(f"{PREFIX}{key.upper()}{shown} is ignored: {error}")
    for secret, file in SECRETS.items():
        _read_secret_file(accepted, secret, file, problems)
    _raise_short_times(accepted, problems)
    if not accepted.get("spool_dir"):
        accepted["spool_dir"] = str(_default_spool_directory(environment, problems))
    return Settings(**accepted, problems=tuple(problems))


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or variable in SERVICE_VARIABLES or value == "":
            continue
        key = variable.removeprefix(PREFIX).lower()
        if key in _PARSERS:
            given[key] = value
        else:
            problems.append(
                f"{variable} is not a setting of the collector; known: {', '.join(sorted(_PARSERS))}"
            )
    return given


def _from_file(environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    path = environment.get(CONFIG_VARIABLE, "")
    if not path:
        return {}
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{CONFIG_VARIABLE}={path} cannot be read and is ignored: {error}")
        return {}
    known = ", ".join(sorted(_PARSERS))
    problems.extend(
        f"{path}: {key!r} is not a setting of the collector; known: {known}"
        for key in sorted(document.keys() - _PARSERS.keys())
    )
    return {key: value for key, value in document.items() if key in _PARSERS}


def _default_spool_directory(environment: Mapping[str, str], problems: list[str]) -> Path:
    data = environment.get("FALSEOK_DATA")
    if data:
        return Path(data) / "spool"
    try:
        return Path.home() / ".local" / "share" / "falseok" / "spool"
    except RuntimeError:  # a container may run under a user id that has no home
        directory = Path(tempfile.gettempdir()) / f"falseok-{os.getuid()}" / "spool"
        problems.append(f"there is no home directory, events go to {directory}: set {PREFIX}SPOOL_DIR")
        return directory


def _read_secret_file(accepted: dict[str, Any], secret: str, file: str, problems: list[str]) -> None:
    path = accepted.get(file)
    if not path:
        return
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        problems.append(f"{PREFIX}{file.upper()}={path} cannot be read and is ignored: {error}")
        return
    if text:
        accepted[secret] = text
    else:
        problems.append(f"{PREFIX}{file.upper()}={path} is empty and is ignored")


def _raise_short_times(accepted: dict[str, Any], problems: list[str]) -> None:
    for key, least in _LEAST_SECONDS.items():
        seconds = accepted.get(key, least)
        if seconds < least:
            accepted[key] = least
            problems.append(f"{PREFIX}{key.upper()}={seconds!r} is raised to {least}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    value.encode()  # events are UTF-8: an undecodable byte in a setting would spoil them all
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a path")
    return os.path.abspath(os.path.expanduser(value))  # noqa: PTH100, PTH111 - Path raises where there is no home


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    raise ValueError("expected 0 or 1")


def _whole_number(value: Any) -> int:
    problem = "expected a whole number above 0"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(problem)
    try:
        number = int(value)
    except ValueError:
        raise ValueError(problem) from None
    if not 0 < number <= _INT64_MAX:
        raise ValueError(problem)
    return number


def _captured_bytes(value: Any) -> int:
    number = _whole_number(value)
    if number > _CAPTURED_BYTES_MAX:
        raise ValueError(f"expected at most {_CAPTURED_BYTES_MAX:,}")
    return number


def _seconds(value: Any) -> float:
    problem = f"expected seconds, above 0 and at most {_SECONDS_MAX:,}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(problem)
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        raise ValueError(problem) from None
    if not 0 < seconds <= _SECONDS_MAX:  # false for a NaN, too
        raise ValueError(problem)
    return seconds


def _sinks(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else _text(value).split(",")
    sinks = tuple(dict.fromkeys(str(name).strip() for name in names if str(name).strip()))
    unknown = [name for name in sinks if name not in KNOWN_SINKS]
    if unknown or not sinks:
        raise ValueError(f"expected a list out of {', '.join(KNOWN_SINKS)}")
    return sinks


def _one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = _text(value).strip()
        for choice in choices:
            if text.upper() == choice.upper():
                return choice
        raise ValueError(f"expected one of {', '.join(choices)}")

    return parse


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "enabled": _boolean,
    "sinks": _sinks,
    "spool_dir": _path,
    "spool_max_bytes": _whole_number,
    "spool_segment_bytes": _whole_number,
    "kafka_bootstrap_servers": _text,
    "kafka_topic": _text,
    "kafka_engines_topic": _text,
    "kafka_compression": _one_of(*COMPRESSIONS),
    "kafka_timeout_seconds": _seconds,
    "kafka_security_protocol": _one_of(*SECURITY_PROTOCOLS),
    "kafka_sasl_mechanism": _one_of(*SASL_MECHANISMS),
    "kafka_sasl_username": _text,
    "kafka_sasl_password": _text,
    "kafka_sasl_password_file": _path,
    "kafka_ssl_cafile": _path,
    "kafka_ssl_certfile": _path,
    "kafka_ssl_keyfile": _path,
    "kafka_ssl_key_password": _text,
    "kafka_ssl_key_password_file": _path,
    "kafka_ssl_check_hostname": _boolean,
    "engine_group": _text,
    "salt": _text,
    "salt_file": _path,
    "ring_events": _whole_number,
    "flush_seconds": _seconds,
    "heartbeat_seconds": _seconds,
    "text_features": _boolean,
    "capture_text": _boolean,
    "capture_text_max_bytes": _captured_bytes,
    "raise_in_hooks": _boolean,
}
