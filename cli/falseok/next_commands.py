"""The commands to type after an incident was seen, ready to paste: ids whole, foreign text quoted, lines short."""

import shlex

from falseok.plain_text import printable
from falseok.program import program
from falseok_alerts.incident import Incident

_COMMAND_COLUMNS = 68
"""What is left beside the label on a terminal of 80 columns, with room for a continuation mark."""


def next_commands(incident: Incident, data_argument: str = "") -> list[str]:
    """What to type next, with the whole ids, ready to paste at 80 columns: a long command goes on in the next line."""
    lines = [
        *_command(f"{program()} triage affected {incident.id} --csv", data_argument),
        *_command(f"{program()} triage show {incident.id} --explain", data_argument),
    ]
    if incident.sample_requests:
        lines += _command(f"{program()} triage show {_argument(incident.sample_requests[0])}", data_argument)
    prefill, decode = incident.prefill_engine.group, incident.decode_engine.group
    if prefill and decode:
        lines += _command(
            f"{program()} triage sql configuration_difference",
            f" -p prefill={_argument(prefill)}",
            f" -p decode={_argument(decode)}",
            data_argument,
        )
    return lines


def _command(command: str, *arguments: str) -> list[str]:
    """The command on one line where it fits at 80 columns, else one argument a line, continued as a shell does."""
    whole = "".join((command, *arguments))
    if len(whole) <= _COMMAND_COLUMNS:
        return [whole]
    lines = [command, *(f" {argument}" for argument in arguments if argument)]
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _argument(value: str) -> str:
    """An id as it may be pasted into a shell: clients choose request ids, and some choose them badly."""
    return shlex.quote(printable(value))
