"""Splits a line of a vLLM process into who says it, when, from where, and what.

The layout is that of `vllm.logger` (0.26 to 0.33): an optional prefix of the operator, `(process pid=…)`, level, time
without year and zone, file and line. `VLLM_LOGGING` in JSON (0.32 and later) is read as well.
"""

import re
from dataclasses import dataclass

import msgspec

_LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
_PROCESS = re.compile(r"\((?P<label>[A-Za-z]\w*) pid=(?P<pid>\d{1,9})\) ?")
_RECORD = re.compile(
    rf"(?P<level>{_LEVELS}) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)? "
    r"\[(?P<file>[^\]\s:]{1,200}):(?P<line>\d{1,6})\] ?"
)
_PREFIX_CHARACTERS = 400
"""Where a record may begin at the latest: operators put prefixes of their own before it."""


@dataclass(slots=True)
class Record:
    """One line of a process. Empty texts where the line does not say."""

    message: str
    label: str = ""
    """Name of the process: APIServer, EngineCore, EngineCore_DP0, Worker, Worker_TP1…"""
    pid: int = 0
    level: str = ""
    stamp: str = ""
    """`MM-DD HH:MM:SS`, or with the year before it."""
    place: str = ""
    """File and line that logged: lines of one record share it."""


class _JsonRecord(msgspec.Struct):
    message: str
    levelname: str = ""
    asctime: str = ""
    name: str = ""
    processName: str = ""  # noqa: N815 - the name in the file
    process: int = 0
    exc_info: str = ""


_json = msgspec.json.Decoder(_JsonRecord)


def level_and_stamp(text: str) -> tuple[str, str] | None:
    """Level and stamp of a line, without the rest; `None` where it has none."""
    record = _RECORD.search(text, 0, 2 * _PREFIX_CHARACTERS)
    return (record["level"], record["stamp"]) if record is not None else None


def split(text: str) -> tuple[Record, ...]:
    """The record of a line; several for a JSON record with a traceback. Never raises."""
    if text.startswith("{") and '"message"' in text and (found := _from_json(text)):
        return found
    label, pid, rest = "", 0, text
    process = _PROCESS.search(text, 0, _PREFIX_CHARACTERS)
    if process is not None:
        label, pid, rest = process["label"], int(process["pid"]), text[process.end() :]
    record = _RECORD.search(rest, 0, _PREFIX_CHARACTERS)
    if record is None:
        return (Record(rest, label, pid),)
    if process is None and (late := _PROCESS.match(rest, record.end())):
        # A second formatter put the process behind the level.
        label, pid = late["label"], int(late["pid"])
    place = f"{record['file']}:{record['line']}"
    return (Record(rest[record.end() :], label, pid, record["level"], record["stamp"], place),)


def _from_json(text: str) -> tuple[Record, ...]:
    try:
        line = _json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()
    place = line.name or "json"
    stamp = line.asctime.partition(",")[0]
    messages = [*line.message.splitlines(), *line.exc_info.splitlines()] or [""]
    return tuple(
        Record(message, line.processName, line.process, line.levelname, stamp, place) for message in messages
    )
