"""What the sources of each vLLM say about the functions and attributes the hook table names.

Kept in `signatures.json`, written by `python -m tests.source_check.extract`.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import msgspec

_Value = TypeVar("_Value")

FILE = Path(__file__).with_name("signatures.json")


class Signature(msgspec.Struct, omit_defaults=True, frozen=True):
    """A function as one version defines it."""

    definition: str = ""
    """Header of the function, for example `def f(self, host: str, port: int=0) -> None`."""
    body: str = ""
    """Digest of the body without docstring and comments: another one means another body."""
    defined_in: str = ""
    """Module that defines it, when that is not the one it is wrapped in."""
    inherited_from: str = ""
    """`module:Class` of the base that defines it: the class itself does not, so it cannot be wrapped there."""

    overridden_in: tuple[str, ...] = ()
    """`module:Class` of each class below that has its own and does not call this one: a hook here misses it."""

    def parameters(self) -> list[str]:
        """Names of the parameters in order, `self` included, without `*args` and `**kwargs`."""
        if not self.definition:
            return []
        (function,) = ast.parse(f"{self.definition}: ...").body
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        arguments = function.args
        return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    @property
    def is_coroutine(self) -> bool:
        """Whether calling it only makes a coroutine."""
        return self.definition.startswith("async ")


class Signatures(msgspec.Struct):
    """Everything that is on file."""

    versions: list[str]
    functions: dict[str, dict[str, Signature | None]]
    """By `module:qualified name`, then by version; null where the version has none."""
    attributes: dict[str, dict[str, str]]
    """By `module:Class.name` or `module:function`, then by version: what has or is it, empty where nothing does."""

    def without(self, versions: Iterable[str]) -> "Signatures":
        """Everything but these versions."""
        left_out = set(versions)
        return Signatures(
            [version for version in self.versions if version not in left_out],
            {name: _without(by_version, left_out) for name, by_version in self.functions.items()},
            {name: _without(by_version, left_out) for name, by_version in self.attributes.items()},
        )


class _Function(msgspec.Struct):
    """Versions in a row that define a function in the same way, or do not."""

    versions: list[str]
    signature: Signature | None


class _Attribute(msgspec.Struct):
    """Versions in a row that have an attribute in the same place; empty where none has it."""

    versions: list[str]
    home: str


class _OnFile(msgspec.Struct):
    """Signatures as the file has them."""

    versions: list[str]
    functions: dict[str, list[_Function]]
    attributes: dict[str, list[_Attribute]]


def read(path: Path = FILE) -> Signatures:
    """The signatures on file. Raises `msgspec.ValidationError` when the file does not fit."""
    on_file = msgspec.json.decode(path.read_bytes(), type=_OnFile)
    return Signatures(
        on_file.versions,
        {
            name: {version: run.signature for run in runs for version in run.versions}
            for name, runs in on_file.functions.items()
        },
        {
            name: {version: run.home for run in runs for version in run.versions}
            for name, runs in on_file.attributes.items()
        },
    )


def write(signatures: Signatures, path: Path = FILE) -> None:
    """Write them sorted and readable: where a version differs from the one before, there is a new entry."""
    on_file = _OnFile(
        signatures.versions,
        {
            name: [_Function(versions, signature) for versions, signature in _runs(by_version)]
            for name, by_version in signatures.functions.items()
        },
        {
            name: [_Attribute(versions, home) for versions, home in _runs(by_version)]
            for name, by_version in signatures.attributes.items()
        },
    )
    text = msgspec.json.format(msgspec.json.encode(on_file, order="sorted"), indent=1)
    # Versions of a run on one line.
    text = re.sub(rb"\[\s+((?:\"[\d.]+\",?\s+)+)\]", _on_one_line, text)
    path.write_bytes(text + b"\n")


def _on_one_line(versions: re.Match[bytes]) -> bytes:
    return b"[" + b" ".join(versions.group(1).split()) + b"]"


def _runs(by_version: dict[str, _Value]) -> Iterator[tuple[list[str], _Value]]:
    for value, run in groupby(sorted(by_version), key=lambda version: by_version[version]):
        yield list(run), value


def _without(by_version: dict[str, _Value], versions: set[str]) -> dict[str, _Value]:
    return {version: value for version, value in by_version.items() if version not in versions}
