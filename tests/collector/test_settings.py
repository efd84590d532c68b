"""Settings come from the environment and a file; whatever is wrong is named, and the default holds."""

from pathlib import Path
from typing import Any

import pytest

from falseok_collector import settings
from falseok_collector.settings import Settings, read_settings

DEFAULTS = {name: getattr(Settings(), name) for name in Settings.__struct_fields__}


def config_file(directory: Path, text: str) -> dict[str, str]:
    """The environment of a process whose settings file holds `text`."""
    path = directory / "falseok.toml"
    path.write_text(text, encoding="utf-8")
    return {"FALSEOK_CONFIG": str(path)}


def test_without_anything_given_the_defaults_hold() -> None:
    """On, one spool sink, below the user's data directory."""
    spool_dir = str(Path.home() / ".local" / "share" / "falseok" / "spool")
    assert Settings(spool_dir=spool_dir) == read_settings({})


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("FALSEOK_ENABLED", "0", "enabled", False),
        ("FALSEOK_SINKS", "memory, spool", "sinks", ("memory", "spool")),
        ("FALSEOK_SINKS", "spool,spool,", "sinks", ("spool",)),
        ("FALSEOK_SPOOL_DIR", "/s", "spool_dir", "/s"),
        ("FALSEOK_SPOOL_DIR", "~/s", "spool_dir", str(Path.home() / "s")),
        ("FALSEOK_SPOOL_DIR", "s", "spool_dir", str(Path.cwd() / "s")),
        ("FALSEOK_SPOOL_MAX_BYTES", "1048576", "spool_max_bytes", 1_048_576),
        ("FALSEOK_SPOOL_SEGMENT_BYTES", "4096", "spool_segment_bytes", 4096),
        ("FALSEOK_KAFKA_BOOTSTRAP_SERVERS", "a:1,b:2", "kafka_bootstrap_servers", "a:1,b:2"),
        ("FALSEOK_KAFKA_TOPIC", "t", "kafka_topic", "t"),
        ("FALSEOK_KAFKA_ENGINES_TOPIC", "t", "kafka_engines_topic", "t"),
        ("FALSEOK_KAFKA_COMPRESSION", "ZSTD", "kafka_compression", "zstd"),
        ("FALSEOK_KAFKA_TIMEOUT_SECONDS", "2", "kafka_timeout_seconds", 2.0),
        ("FALSEOK_KAFKA_SECURITY_PROTOCOL", "sasl_ssl", "kafka_security_protocol", "SASL_SSL"),
        ("FALSEOK_KAFKA_SASL_MECHANISM", "SCRAM-SHA-256", "kafka_sasl_mechanism", "SCRAM-SHA-256"),
        ("FALSEOK_KAFKA_SASL_USERNAME", "u", "kafka_sasl_username", "u"),
        ("FALSEOK_KAFKA_SASL_PASSWORD", "p", "kafka_sasl_password", "p"),
        ("FALSEOK_KAFKA_SSL_CAFILE", "/c.pem", "kafka_ssl_cafile", "/c.pem"),
        ("FALSEOK_KAFKA_SSL_CERTFILE", "/c.pem", "kafka_ssl_certfile", "/c.pem"),
        ("FALSEOK_KAFKA_SSL_KEYFILE", "/k.pem", "kafka_ssl_keyfile", "/k.pem"),
        ("FALSEOK_KAFKA_SSL_KEY_PASSWORD", "p", "kafka_ssl_key_password", "p"),
        ("FALSEOK_KAFKA_SSL_CHECK_HOSTNAME", "0", "kafka_ssl_check_hostname", False),
        ("FALSEOK_ENGINE_GROUP", "chat", "engine_group", "chat"),
        ("FALSEOK_SALT", "pepper", "salt", "pepper"),
        ("FALSEOK_RING_EVENTS", "10", "ring_events", 10),
        ("FALSEOK_FLUSH_SECONDS", "0.5", "flush_seconds", 0.5),
        ("FALSEOK_HEARTBEAT_SECONDS", "60", "heartbeat_seconds", 60.0),
        ("FALSEOK_RAISE_IN_HOOKS", "1", "raise_in_hooks", True),
    ],
)
def test_every_setting_can_be_given_in_the_environment(
    variable: str, text: str, field: str, value: Any
) -> None:
    """The variable is the field's name in capitals with our prefix."""
    read = read_settings({variable: text})
    assert (value, ()) == (getattr(read, field), read.problems)


def test_every_setting_has_a_parser() -> None:
    """A field nobody can set would be a defect."""
    assert set(Settings.__struct_fields__) - {"problems"} == set(settings._PARSERS)


def test_a_file_can_give_every_kind_of_value(tmp_path: Path) -> None:
    """Booleans, lists, numbers and text, in TOML's own types."""
    environment = config_file(
        tmp_path,
        'enabled = false\nsinks = ["memory"]\nring_events = 5\nflush_seconds = 1\nengine_group = "g"\n',
    )
    read = read_settings(environment | {"FALSEOK_DATA": "/d"})
    expected = Settings(
        enabled=False,
        sinks=("memory",),
        ring_events=5,
        flush_seconds=1.0,
        engine_group="g",
        spool_dir="/d/spool",
    )
    assert expected == read


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    """One process can be told otherwise than the rest."""
    environment = config_file(tmp_path, 'engine_group = "file"\nring_events = 5\n')
    read = read_settings(environment | {"FALSEOK_ENGINE_GROUP": "environment"})
    assert ("environment", 5) == (read.engine_group, read.ring_events)


def test_the_data_directory_moves_the_spool_unless_it_is_named() -> None:
    """FALSEOK_SPOOL_DIR, else FALSEOK_DATA, else the home directory."""
    assert "/d/spool" == read_settings({"FALSEOK_DATA": "/d"}).spool_dir
    assert "/s" == read_settings({"FALSEOK_DATA": "/d", "FALSEOK_SPOOL_DIR": "/s"}).spool_dir


@pytest.mark.parametrize("text", ["0", "false", "no", "off", "OFF", " False "])
def test_the_collector_is_turned_off_by_any_word_for_no(text: str) -> None:
    """Whoever wants it off gets it off."""
    assert not read_settings({"FALSEOK_ENABLED": text}).enabled


@pytest.mark.parametrize("text", ["1", "true", "yes", "on", "TRUE", ""])
def test_the_collector_is_on_by_any_word_for_yes(text: str) -> None:
    """An empty variable counts as not given."""
    read = read_settings({"FALSEOK_ENABLED": text})
    assert (True, ()) == (read.enabled, read.problems)


@pytest.mark.parametrize(
    ("variable", "text", "expectation"),
    [
        ("FALSEOK_ENABLED", "maybe", "expected 0 or 1"),
        ("FALSEOK_SINKS", "spool,carrier-pigeon", "expected a list out of spool, kafka, otlp, memory"),
        ("FALSEOK_SINKS", ",", "expected a list out of spool, kafka, otlp, memory"),
        ("FALSEOK_SPOOL_MAX_BYTES", "1GiB", "expected a whole number above 0"),
        ("FALSEOK_SPOOL_MAX_BYTES", "0", "expected a whole number above 0"),
        ("FALSEOK_SPOOL_MAX_BYTES", "9223372036854775808", "expected a whole number above 0"),
        ("FALSEOK_SPOOL_SEGMENT_BYTES", "-1", "expected a whole number above 0"),
        ("FALSEOK_RING_EVENTS", "1.5", "expected a whole number above 0"),
        ("FALSEOK_FLUSH_SECONDS", "nan", "expected seconds, above 0 and at most 3,600"),
        ("FALSEOK_FLUSH_SECONDS", "soon", "expected seconds, above 0 and at most 3,600"),
        ("FALSEOK_HEARTBEAT_SECONDS", "inf", "expected seconds, above 0 and at most 3,600"),
        ("FALSEOK_HEARTBEAT_SECONDS", "0", "expected seconds, above 0 and at most 3,600"),
        ("FALSEOK_RAISE_IN_HOOKS", "2", "expected 0 or 1"),
        ("FALSEOK_KAFKA_COMPRESSION", "zip", "expected one of none, gzip, lz4, snappy, zstd"),
        ("FALSEOK_KAFKA_SASL_MECHANISM", "GSSAPI", "expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (
            "FALSEOK_KAFKA_SECURITY_PROTOCOL",
            "TLS",
            "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
    ],
)
def test_a_wrong_value_is_named_and_the_default_holds(variable: str, text: str, expectation: str) -> None:
    """The sentence says which variable, which value, and what was expected."""
    read = read_settings({variable: text})
    field = variable.removeprefix("FALSEOK_").lower()
    assert DEFAULTS[field] == getattr(read, field)
    assert (f"{variable}={text!r} is ignored: {expectation}",) == read.problems


@pytest.mark.parametrize(
    ("field", "least"),
    [("flush_seconds", 0.005), ("heartbeat_seconds", 0.05), ("kafka_timeout_seconds", 0.5)],
)
@pytest.mark.parametrize("text", ["1e-9", "0.0049", "0.0000000001"])
def test_too_short_a_time_is_lengthened_and_named(field: str, least: float, text: str) -> None:
    """A sender that never sleeps would take a processor from the engine."""
    variable = f"FALSEOK_{field.upper()}"
    read = read_settings({variable: text})
    assert least == getattr(read, field)
    assert (f"{variable}={float(text)!r} is raised to {least}",) == read.problems


@pytest.mark.parametrize(
    "line",
    [
        "engine_group = 5",
        "spool_dir = 5",
        "salt = 5",
        "sinks = 5",
        "ring_events = true",
        "ring_events = 1.0",
        "flush_seconds = true",
        "flush_seconds = [1]",
        "enabled = 3",
    ],
)
def test_a_value_of_another_type_in_the_file_is_named(tmp_path: Path, line: str) -> None:
    """TOML types are not bent into shape."""
    field = line.split(maxsplit=1)[0]
    read = read_settings(config_file(tmp_path, line) | {"FALSEOK_DATA": "/d"})
    expected = "/d/spool" if field == "spool_dir" else DEFAULTS[field]
    assert (expected, 1) == (getattr(read, field), len(read.problems))
    assert f"FALSEOK_{field.upper()}" in read.problems[0]


def test_every_problem_is_reported() -> None:
    """Whoever fixes settings wants to see all that is wrong at once."""
    read = read_settings(
        {
            "FALSEOK_ENABLED": "maybe",
            "FALSEOK_SINKS": "nowhere",
            "FALSEOK_TYPO": "1",
            "FALSEOK_SALT_FILE": "/no",
        }
    )
    assert 4 == len(read.problems)


def test_an_unknown_variable_is_named_with_the_known_ones() -> None:
    """A typing error must not pass for a setting."""
    (problem,) = read_settings({"FALSEOK_SPOOLDIR": "/s"}).problems
    assert problem.startswith("FALSEOK_SPOOLDIR is not a setting of the collector; known: capture_text, ")


def test_an_unknown_key_of_the_file_is_named(tmp_path: Path) -> None:
    """With the file it is in."""
    environment = config_file(tmp_path, "spooldir = 1\n")
    (problem,) = read_settings(environment).problems
    assert problem.startswith(f"{environment['FALSEOK_CONFIG']}: 'spooldir' is not a setting")


@pytest.mark.parametrize("variable", ["FALSEOK_DATA", "FALSEOK_CONFIG", "FALSEOK_LAB_CACHE"])
def test_variables_of_the_service_are_no_problem(variable: str, tmp_path: Path) -> None:
    """They share our prefix and are read elsewhere."""
    environment = config_file(tmp_path, "") if variable == "FALSEOK_CONFIG" else {variable: "/d"}
    assert () == read_settings(environment).problems


@pytest.mark.parametrize(
    "content",
    [b"enabled = ", b"\xff\xfe", b"a = " + b"[" * 5_000],
    ids=["broken", "not UTF-8", "nested deeply"],
)
def test_an_unreadable_file_is_named_and_ignored(tmp_path: Path, content: bytes) -> None:
    """The engine starts with defaults; the environment still counts."""
    path = tmp_path / "falseok.toml"
    path.write_bytes(content)
    read = read_settings({"FALSEOK_CONFIG": str(path), "FALSEOK_RING_EVENTS": "7"})
    assert 7 == read.ring_events
    assert [True] == [f"FALSEOK_CONFIG={path} cannot be read" in problem for problem in read.problems]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """Naming a file that is not there is a mistake."""
    (problem,) = read_settings({"FALSEOK_CONFIG": str(tmp_path / "absent.toml")}).problems
    assert "cannot be read" in problem


def test_the_salt_comes_from_its_file(tmp_path: Path) -> None:
    """Without the line break editors add; it wins over the variable."""
    path = tmp_path / "salt"
    path.write_text("pepper\n", encoding="utf-8")
    read = read_settings({"FALSEOK_SALT_FILE": str(path), "FALSEOK_SALT": "other"})
    assert ("pepper", ()) == (read.salt, read.problems)


def test_an_unreadable_salt_file_is_named_and_the_variable_counts(tmp_path: Path) -> None:
    """Hashes then are not comparable, which somebody should know."""
    path = str(tmp_path / "absent")
    read = read_settings({"FALSEOK_SALT_FILE": path, "FALSEOK_SALT": "other"})
    assert "other" == read.salt
    assert [True] == [f"FALSEOK_SALT_FILE={path} cannot be read" in problem for problem in read.problems]


def test_an_empty_salt_file_is_named(tmp_path: Path) -> None:
    """It would silently make every hash incomparable."""
    path = tmp_path / "salt"
    path.write_text("\n", encoding="utf-8")
    assert (f"FALSEOK_SALT_FILE={path} is empty and is ignored",) == read_settings(
        {"FALSEOK_SALT_FILE": str(path)}
    ).problems


@pytest.mark.parametrize("secret", ["salt", "kafka_sasl_password", "kafka_ssl_key_password"])
def test_a_secret_never_shows_in_a_problem(tmp_path: Path, secret: str) -> None:
    """Problems go to the log."""
    (problem,) = read_settings(config_file(tmp_path, f"{secret} = 731\n")).problems
    assert f"FALSEOK_{secret.upper()} is ignored: expected text" == problem


@pytest.mark.parametrize("secret", ["salt", "kafka_sasl_password", "kafka_ssl_key_password"])
def test_a_secret_comes_from_its_file_which_wins(tmp_path: Path, secret: str) -> None:
    """Secrets are mounted as files; a line break at the end is the editor's."""
    path = tmp_path / "secret"
    path.write_text("pepper\n", encoding="utf-8")
    name = f"FALSEOK_{secret.upper()}"
    read = read_settings({f"{name}_FILE": str(path), name: "other"})
    assert ("pepper", ()) == (getattr(read, secret), read.problems)


def test_a_group_that_is_not_text_is_refused() -> None:
    """An undecodable byte in it would spoil every event."""
    read = read_settings({"FALSEOK_ENGINE_GROUP": "a\udcff"})
    assert ("", 1) == (read.engine_group, len(read.problems))


def test_a_user_without_a_home_gets_a_spool_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under user ids nobody knows; the collector still works, and says where it writes."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    read = read_settings({})
    assert read.spool_dir.endswith("/spool")
    assert [f"there is no home directory, events go to {read.spool_dir}: set FALSEOK_SPOOL_DIR"] == list(
        read.problems
    )
    assert () == read_settings({"FALSEOK_SPOOL_DIR": "/s"}).problems
