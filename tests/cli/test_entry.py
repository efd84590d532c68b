"""The console script beside vLLM, where the service is not installed."""

import subprocess
import sys
from pathlib import Path

import falseok
import falseok_alerts
from falseok.entry import installed_version

SOURCES = [str(Path(package.__file__ or "").parents[1]) for package in (falseok, falseok_alerts)]
WITHOUT_SITE_PACKAGES = f"import sys; sys.path[:0] = {SOURCES!r}; "


def run(code: str) -> subprocess.CompletedProcess[str]:
    """A Python with our sources and the standard library only."""
    command = [sys.executable, "-I", "-S", "-c", WITHOUT_SITE_PACKAGES + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_missing_service_says_what_to_install_and_exits_2() -> None:
    """No traceback: the module that is missing, the command that brings it."""
    done = run("from falseok.entry import main; main(['triage', 'incidents'])")
    assert (2, "") == (done.returncode, done.stdout)
    assert "pip install 'falseok[service]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_needs_no_service() -> None:
    """The base install can say what it is."""
    done = run("from falseok.entry import main; main(['--version'])")
    assert 0 == done.returncode
    assert done.stdout.startswith("falseok ")


def test_entry_imports_nothing_of_the_service() -> None:
    """Importing the console script costs only the standard library."""
    code = (
        "import falseok.entry; print([m for m in ('typer', 'rich', 'chdb', 'msgspec') if m in sys.modules])"
    )
    assert "[]\n" == run(code).stdout


def test_python_dash_m_is_the_same_command() -> None:
    """`python -m falseok` works where the console script is not on the path."""
    command = [sys.executable, "-m", "falseok", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert f"falseok {installed_version()}\n" == done.stdout
