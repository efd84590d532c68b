"""Where the collector in the engines comes from."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.stand_in_cache import REPOSITORY, Progress

from falseok_lab.collector_source import checkout_of, fingerprint, wheel
from falseok_lab.errors import LabError
from falseok_lab.installer import uv_command

METADATA = "Metadata-Version: 2.4\nName: falseok\nVersion: 9.9\n"


def installed(folder: Path, direct_url: dict[str, object] | None = None) -> importlib.metadata.Distribution:
    """FalseOK as an installer leaves it in a site-packages folder."""
    info = folder / "falseok-9.9.dist-info"
    package = folder / "falseok_collector"
    for made in (info, package):
        made.mkdir(parents=True)
    (package / "__init__.py").write_text("WHERE = 'packed'\n")
    (info / "METADATA").write_text(METADATA)
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    (info / "INSTALLER").write_text("test\n")
    names = ["falseok_collector/__init__.py", "falseok_collector/__pycache__/__init__.cpython-311.pyc"]
    names += [f"falseok-9.9.dist-info/{name}" for name in ("METADATA", "WHEEL", "INSTALLER", "RECORD")]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in [*names, "../../bin/falseok"]))
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    return importlib.metadata.Distribution.at(info)


def checkout(folder: Path) -> Path:
    """The part of a checkout that the fingerprint looks at."""
    (folder / "collector" / "falseok_collector").mkdir(parents=True)
    (folder / "collector" / "falseok_collector" / "__init__.py").write_text("")
    (folder / "pyproject.toml").write_text("")
    return folder


def test_an_installed_collector_is_packed_into_a_wheel_that_installs(
    tmp_path: Path, progress: Progress
) -> None:
    """The installer accepts it without any network, and the files are the installed ones."""
    packed = wheel(installed(tmp_path / "site"), tmp_path, progress)
    target = tmp_path / "target"
    command = uv_command("pip", "install", "--offline", "--no-deps", "--python", sys.executable)
    subprocess.run([*command, "--target", str(target), str(packed)], check=True, capture_output=True)
    assert "WHERE = 'packed'\n" == (target / "falseok_collector" / "__init__.py").read_text()
    assert "9.9" == importlib.metadata.Distribution.at(target / "falseok-9.9.dist-info").version


def test_an_editable_installation_leads_to_its_checkout(tmp_path: Path) -> None:
    """Any other kind of installation is packed from its own files."""
    url = "file:///some/check%20out"
    editable = installed(tmp_path / "a", {"url": url, "dir_info": {"editable": True}})
    assert Path("/some/check out") == checkout_of(editable)
    assert checkout_of(installed(tmp_path / "b", {"url": url, "dir_info": {}})) is None
    assert checkout_of(installed(tmp_path / "c")) is None


@pytest.mark.parametrize(
    "changed",
    ["collector/falseok_collector/__init__.py", "collector/falseok_collector/new.py", "pyproject.toml"],
)
def test_the_fingerprint_changes_with_the_collector(tmp_path: Path, changed: str) -> None:
    """A changed file, a new file, and the entry points; byte code does not count."""
    source = checkout(tmp_path)
    before = fingerprint(source)
    cache = source / "collector" / "falseok_collector" / "__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_text("x")
    assert before == fingerprint(source)
    (source / changed).write_text("changed\n")
    assert before != fingerprint(source)


def test_the_fingerprint_of_an_installation_is_that_of_its_files(tmp_path: Path) -> None:
    """The same files give the same, another file another."""
    first, second = installed(tmp_path / "a"), installed(tmp_path / "b")
    assert fingerprint(first) == fingerprint(second)
    (tmp_path / "b" / "falseok_collector" / "__init__.py").write_text("changed\n")
    assert fingerprint(first) != fingerprint(second)


def test_a_folder_that_is_no_checkout_is_named(tmp_path: Path) -> None:
    """This repository is one."""
    with pytest.raises(LabError, match="is not a checkout of FalseOK"):
        fingerprint(tmp_path)
    assert 64 == len(fingerprint(REPOSITORY))
