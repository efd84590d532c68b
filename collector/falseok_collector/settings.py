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
KNOWN_SINKS = ("spool", "memory")
SERVICE_VARIABLES = frozenset({"FALSEOK_CONFIG", "FALSEOK_DATA"})
"""Variables that are ours but are not settings of the collector."""
_INT64_MAX = 2**63 - 1
_SECONDS_MAX = 3_600
_FLUSH_SECONDS_MIN = 0.005
"""Waking up more often costs a process more than it gains a reader."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the collector does in this process.

    Every field is an environment variable of the same name in capitals with the prefix `FALSEOK_`,
    and a key of the same name in the TOML file named by `FALSEOK_CONFIG`.
    """

    enabled: bool = True
    """0 turns the collector off entirely: nothing is wrapped, nothing is started."""
    sinks: tuple[str, ...] = ("spool",)
    """Where events go: spool, memory. Several at once are allowed."""
    spool_dir: str = ""
    """Directory of the spool; empty: `spool` below FALSEOK_DATA, else below the user's data directory."""
    spool_max_bytes: int = 1024**3
    """Bound of the whole spool directory. Past it the oldest finished segments are dropped and counted."""
    spool_segment_bytes: int = 16 * 1024**2
    """Size at which a new segment is begun."""
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
    """How often the sender thread hands events to the sinks; less than 0.005 is raised to that."""
    heartbeat_seconds: float = 5.0
    """How often `collector.heartbeat` is sent."""
    raise_in_hooks: bool = False
    """Test aid: every hook raises inside. Serving must not notice."""
    problems: tuple[str, ...] = ()
    """What was wrong with the settings as given, one sentence each."""


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
            shown = "" if key == "salt" else f"={value!r}"
            problems.append(f"{PREFIX}{key.upper()}{shown} is ignored: {error}")
    _read_salt_file(accepted, problems)
    _raise_flush_seconds(accepted, problems)
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


def _read_salt_file(accepted: dict[str, Any], problems: list[str]) -> None:
    path = accepted.get("salt_file")
    if not path:
        return
    try:
        salt = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        problems.append(f"{PREFIX}SALT_FILE={path} cannot be read and is ignored: {error}")
        return
    if salt:
        accepted["salt"] = salt
    else:
        problems.append(f"{PREFIX}SALT_FILE={path} is empty and is ignored")


def _raise_flush_seconds(accepted: dict[str, Any], problems: list[str]) -> None:
    seconds = accepted.get("flush_seconds", _FLUSH_SECONDS_MIN)
    if seconds < _FLUSH_SECONDS_MIN:
        accepted["flush_seconds"] = _FLUSH_SECONDS_MIN
        problems.append(f"{PREFIX}FLUSH_SECONDS={seconds!r} is raised to {_FLUSH_SECONDS_MIN}")


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


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "enabled": _boolean,
    "sinks": _sinks,
    "spool_dir": _path,
    "spool_max_bytes": _whole_number,
    "spool_segment_bytes": _whole_number,
    "engine_group": _text,
    "salt": _text,
    "salt_file": _path,
    "ring_events": _whole_number,
    "flush_seconds": _seconds,
    "heartbeat_seconds": _seconds,
    "raise_in_hooks": _boolean,
}
