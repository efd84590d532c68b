"""What the sources of each vLLM say about the functions and attributes the hook table names.

Kept in `signatures.json`, written by `python -m tests.source_check.extract`.
"""

import ast
from collections.abc import Iterable
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
    """The whole file."""

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


def read(path: Path = FILE) -> Signatures:
    """The signatures on file. Raises `msgspec.ValidationError` when the file does not fit."""
    return msgspec.json.decode(path.read_bytes(), type=Signatures)


def write(signatures: Signatures, path: Path = FILE) -> None:
    """Write them sorted and readable: a change of a version is a change of few lines."""
    text = msgspec.json.format(msgspec.json.encode(signatures, order="sorted"), indent=1)
    path.write_bytes(text + b"\n")


def _without(by_version: dict[str, _Value], versions: set[str]) -> dict[str, _Value]:
    return {version: value for version, value in by_version.items() if version not in versions}
