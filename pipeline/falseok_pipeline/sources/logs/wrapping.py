"""Takes off what container runtimes, kubectl, journald and terminals put around a log line."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_CRI = re.compile(rf"({_ISO}) (?:stdout|stderr) ([FP])(?:\s|$)")
_KUBECTL_STAMP = re.compile(rf"({_ISO}) ")
_POD = re.compile(r"\[(pod/[^\]\s]+)\] ")
_COMPOSE = re.compile(r"([A-Za-z0-9][\w.-]*) +\| ")
_LOG_LINE = re.compile(
    rf"(?:{_ISO} )?(?:\x1b\[[0-9;]*m)*(?:\(\w[\w ]* pid=\d+\)|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\{{\")"
)
"""How a line of vLLM, of uvicorn or of a JSON logger begins."""
_JOURNAL = re.compile(rf"(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|({_ISO})) (\S+) ([\w@.:\\/-]+)\[\d+\]: ")
_MAX_LAYERS = 5
_MAX_SERVICES = 64
"""Services of Docker Compose that one file is believed to hold."""


class _DockerLine(msgspec.Struct):
    log: str
    time: str = ""
    stream: str = ""


_docker = msgspec.json.Decoder(_DockerLine)


@dataclass(slots=True)
class Unwrapped:
    """The line as the process wrote it."""

    text: str
    stamp_micros: int | None = None
    """When the runtime took it, microseconds since the epoch; `None` where nothing says so."""
    source: str = ""
    """Pod and container or service, where one file holds the lines of several."""
    partial: bool = False
    """The runtime cut the line: the next one of this source goes on with it."""


def unwrap(text: str, services: set[str] | None = None) -> Unwrapped:
    """The line without its wrappings, outermost first. Never raises; what is not recognised stays.

    `name | …` is how Docker Compose marks a service, but also how a table or a progress bar looks: it counts when a log
    line follows, or when the name is among `services`, where those found so are kept for the next lines of the file.
    """
    if text.startswith("(") and "\x1b" not in text:
        return Unwrapped(text.rstrip("\r"))  # the usual case: a vLLM process writes into the file itself
    return _unwrap(text, set() if services is None else services)


def _unwrap(text: str, services: set[str]) -> Unwrapped:
    stamp: int | None = None
    source = ""
    partial = False
    for _ in range(_MAX_LAYERS):
        first = text[:1]
        if first == "{" and text.startswith('{"log":'):
            try:
                line = _docker.decode(text)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                break
            partial = not line.log.endswith("\n")
            text, stamp = line.log.rstrip("\r\n"), micros_of(line.time) or stamp
        elif first == "[" and (pod := _POD.match(text)):
            source, text = pod.group(1), text[pod.end() :]
        elif first.isdigit() and (cri := _CRI.match(text)):
            stamp, partial, text = micros_of(cri.group(1)) or stamp, cri.group(2) == "P", text[cri.end() :]
        elif first.isdigit() and (stamped := _KUBECTL_STAMP.match(text)) and not _JOURNAL.match(text):
            stamp, text = micros_of(stamped.group(1)) or stamp, text[stamped.end() :]
        elif (first.isupper() or first.isdigit()) and (journal := _JOURNAL.match(text)):
            stamp = micros_of(journal.group(1) or "") or stamp
            source, text = f"{journal.group(2)}/{journal.group(3)}", text[journal.end() :]
        elif first.isalnum() and (compose := _COMPOSE.match(text)) and _is_service(compose, services):
            source, text = compose.group(1), text[compose.end() :]
        else:
            break
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return Unwrapped(text.rstrip("\r"), stamp, source, partial)


def _is_service(found: re.Match[str], services: set[str]) -> bool:
    name = found.group(1)
    if name in services:
        return True
    if len(services) >= _MAX_SERVICES or not _LOG_LINE.match(found.string, found.end()):
        return False
    services.add(name)
    return True


def micros_of(iso: str) -> int | None:
    """RFC 3339 with up to nine digits of fraction, as microseconds since the epoch; `None` for anything else."""
    if not iso:
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"([.,]\d{6})\d+", r"\1", iso))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)
