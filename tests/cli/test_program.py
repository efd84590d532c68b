"""Commands shown can be pasted."""

import sys
from pathlib import Path

import pytest

from falseok.program import program


def test_the_plain_name_is_shown_where_the_shell_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With falseok on the PATH, its name is enough."""
    script = tmp_path / "falseok"
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert "falseok" == program()


def test_off_the_path_the_way_it_was_started_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Below the current folder the path is short; elsewhere it is whole, and quoted for the shell."""
    script = tmp_path / "a b" / "bin" / "falseok"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.chdir(tmp_path)
    assert "'a b/bin/falseok'" == program()
    monkeypatch.chdir("/")
    assert f"'{script.relative_to('/')}'" == program()


def test_started_as_a_module_the_plain_name_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m falseok` has no script to name."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["/somewhere/falseok/__main__.py"])
    assert "falseok" == program()
