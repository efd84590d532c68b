"""Laws over all commands."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from tests.cli.command_line import falseok

from falseok.app import app
from falseok.errors import CliError, describe
from falseok_alerts.errors import AlertsError
from falseok_lab.errors import LabError
from falseok_pipeline.errors import PipelineError

WITHOUT_JSON = {"lab tour", "schema users"}
WITHOUT_DATA = {"schema users", "topics apply", "topics status"}
"""They work on servers only; a data directory would mean nothing."""
"""A tour is for eyes only; its steps are commands with --json of their own."""


def commands(group: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        words = f"{path} {name}".strip()
        if hasattr(command, "commands"):
            yield from commands(command, words)
        else:
            yield words, command


COMMANDS = dict(commands())


def test_the_commands_of_the_first_release_are_there() -> None:
    """Scripts and docs name these."""
    assert {
        "run",
        "status",
        "demo",
        "triage incidents",
        "triage show",
        "triage affected",
        "triage sql",
        "lab up",
        "lab drive",
        "lab status",
        "lab record",
        "lab down",
        "lab tour",
        "ingest logs",
    } <= set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_data_json_and_help_with_examples(name: str) -> None:
    """`--data` wherever there is one, `--json` where a machine may read, examples that begin with the command itself."""
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert (name in WITHOUT_DATA) != ("--data" in options)
    assert (name in WITHOUT_JSON) != ("--json" in options)
    shown = falseok(*name.split(), "--help")
    assert 0 == shown.exit_code
    _, _, examples = shown.stdout.partition("Examples:\n")
    assert examples.lstrip().startswith(f"falseok {name}")


def test_version_is_printed() -> None:
    """For bug reports."""
    assert falseok("--version").stdout.startswith("falseok ")


def test_wrong_option_exits_2() -> None:
    """Usage errors share the status of unreadable input."""
    assert 2 == falseok("status", "--nope").exit_code


@pytest.mark.parametrize(
    "error",
    [
        CliError("what", hint="do"),
        AlertsError("what", hint="do"),
        PipelineError("what"),
        LabError("what"),
        PermissionError(13, "Permission denied", "/some/file"),
        ModuleNotFoundError("No module named 'chdb'", name="chdb"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_family_of_ours_reads_as_a_message(error: Exception) -> None:
    """What is wrong, in words; never a traceback."""
    trouble = describe(error)
    assert trouble is not None
    assert any(word in trouble.message for word in ("what", "/some/file", "falseok[service]"))


def test_defects_keep_their_traceback() -> None:
    """A bug must not be dressed up as the user's mistake."""
    assert describe(KeyError("x")) is None
