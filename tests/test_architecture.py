"""Laws over the whole repository: direction of imports, and what must not stand in a committed file."""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
REGISTRY = re.compile(
    rb"https?://[^\s\"')>]*(pypi\.org|pythonhosted\.org|npmjs\.org|crates\.io|proxy\.golang\.org)"
)
MACHINE_PATH = re.compile(rb"(?<![\w./])/(root|work)/")


def committed() -> list[Path]:
    """Every file git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True).stdout
    return [REPOSITORY / name for name in listed.decode().split("\0") if name]


def offences(pattern: re.Pattern[bytes]) -> list[str]:
    """Files and what was found in them."""
    return [
        f"{path.relative_to(REPOSITORY)}: {found.group().decode()}"
        for path in committed()
        if path.is_file() and path != Path(__file__)
        for found in pattern.finditer(path.read_bytes())
    ]


def test_imports_point_one_way() -> None:
    """The contracts of `[tool.importlinter]` hold."""
    # In a process of its own: the tool configures logging for the whole process.
    checked = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())",
        ],
        cwd=REPOSITORY,
        check=False,
        capture_output=True,
        text=True,
    )
    assert 0 == checked.returncode, checked.stdout


def test_no_committed_file_names_a_package_registry() -> None:
    """Requirements are pinned by name and version; where packages come from is the reader's business."""
    assert [] == offences(REGISTRY)


def test_no_committed_file_names_a_path_of_the_machine_it_was_made_on() -> None:
    """Recordings and pages are free of local paths."""
    assert [] == offences(MACHINE_PATH)


def test_every_module_says_what_it_is_for() -> None:
    """Each module of ours begins with a docstring."""
    modules = [path for path in committed() if path.suffix == ".py" and path.stat().st_size]
    silent = [
        str(path.relative_to(REPOSITORY))
        for path in modules
        if not path.read_text().startswith(('"""', "#!", 'r"""'))
    ]
    assert [] == silent
