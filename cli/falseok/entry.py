"""The console script. Must import nothing of the service at module level: beside vLLM only the base install exists.

Says what to install when the service is missing, and keeps terminals that cannot show a character from failing.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

EXIT_CANNOT_JUDGE = 2
"""Exit status of every command whose input is unreadable or that cannot do its work."""

_OUR_PACKAGES = ("falseok", "falseok_alerts", "falseok_collector", "falseok_lab", "falseok_pipeline")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; leaves by `SystemExit` with the exit status of the command.

    `--version` alone works in the base install too.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        sys.stdout.write(f"falseok {installed_version()}\n")
        raise SystemExit(0)
    for stream in (sys.stdout, sys.stderr):
        _replace_unprintable(stream)
    try:
        from falseok.app import app  # noqa: PLC0415 - the service may not be installed
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OUR_PACKAGES:
            raise
        sys.stderr.write(missing_service_message(error.name))
        raise SystemExit(EXIT_CANNOT_JUDGE) from None
    app(given, prog_name="falseok")


def installed_version() -> str:
    """Version of the installed distribution, or `unknown` when it runs from a tree that was never installed."""
    try:
        return version("falseok")
    except PackageNotFoundError:
        return "unknown"


def missing_service_message(module: str) -> str:
    """What to tell somebody who has only the collector: what is missing and how to get it."""
    return (
        f"falseok: this command needs the service, but the Python module {module!r} is not installed here.\n"
        "The base install is the collector that runs beside vLLM. Install the service, best in its own environment:\n"
        "  pip install 'falseok[service]'\n"
    )


def _replace_unprintable(stream: object) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
