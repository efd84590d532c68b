"""Python sources of one vLLM, in a folder or in a wheel, as syntax trees. Nothing of it is imported."""

import ast
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
_CLASS = re.compile(r"^class (\w+)\(([^)]*)\)", re.MULTILINE)


class Found(NamedTuple):
    """A definition and the module whose source has it."""

    module: str
    node: Definition


class Sources:
    """Modules of one vLLM by name, parsed when they are asked for."""

    def __init__(self, read: Callable[[str], str | None], files: Iterable[str]) -> None:
        self._read = read
        self._files = files
        self._trees: dict[str, ast.Module | None] = {}

    @classmethod
    def open(cls, path: Path) -> "Sources":
        """Sources below a folder that contains `vllm`, or in a wheel.

        Raises `FileNotFoundError` when there is no `vllm` package in it.
        """
        wheel = path.is_file() and zipfile.is_zipfile(path)
        sources = cls(*(_wheel(path) if wheel else _folder(path)))
        if sources.tree("vllm") is None:
            raise FileNotFoundError(f"{path} is neither a folder nor a wheel with a vllm package in it")
        return sources

    def tree(self, module: str) -> ast.Module | None:
        """A module's syntax tree; None where this vLLM has no such module."""
        if module not in self._trees:
            text = self._text(module)
            self._trees[module] = None if text is None else ast.parse(text)
        return self._trees[module]

    def is_package(self, module: str) -> bool:
        """Whether the module is the `__init__` of a folder."""
        return self._read(_path(module, package=True)) is not None

    def find(self, module: str, name: str) -> Found | None:
        """What a dotted name of a module is defined as, following imports by name; None when it is not there.

        Members are looked up in the class itself, not in its bases.
        """
        first, _, rest = name.partition(".")
        found = self._top_level(module, first, frozenset())
        for part in rest.split(".") if rest else ():
            if found is None or not isinstance(found.node, ast.ClassDef):
                return None
            member = _defined(found.node.body, part)
            found = Found(found.module, member) if member is not None else None
        return found

    def bases(self, found: Found) -> list[Found]:
        """Classes of vLLM that a class inherits from, nearest first, without the class itself."""
        known: list[Found] = []
        waiting = [found]
        while waiting:
            current = waiting.pop(0)
            if not isinstance(current.node, ast.ClassDef):
                continue
            for base in current.node.bases:
                plain = base.value if isinstance(base, ast.Subscript) else base
                parent = self.find(current.module, ast.unparse(plain))
                if parent is not None and parent not in known:
                    known.append(parent)
                    waiting.append(parent)
        return known

    def subclasses(self, found: Found) -> list[Found]:
        """Classes of vLLM that inherit from a class, directly or not, in the order of their modules."""
        known: dict[tuple[str, str], Found] = {}
        waiting = [found.node.name]
        while waiting:
            for module, name in self._by_base.get(waiting.pop(), ()):
                below = self.find(module, name)
                if below is None or (module, name) in known or found not in self.bases(below):
                    continue
                known[module, name] = below
                waiting.append(name)
        return [known[key] for key in sorted(known)]

    @cached_property
    def _by_base(self) -> dict[str, list[tuple[str, str]]]:
        """Module and name of every class by the plain names of its bases; looked up as text, which is quick."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for file in self._files:
            module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for name, bases in _CLASS.findall(self._read(file) or ""):
                for base in re.findall(r"\w+", bases):
                    found[base].append((module, name))
        return found

    def _text(self, module: str) -> str | None:
        plain = self._read(_path(module, package=False))
        return self._read(_path(module, package=True)) if plain is None else plain

    def _top_level(self, module: str, name: str, seen: frozenset[tuple[str, str]]) -> Found | None:
        tree = self.tree(module)
        if tree is None or (module, name) in seen:
            return None
        node = _defined(tree.body, name)
        if node is not None:
            return Found(module, node)
        for statement in _flat(tree.body):
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if name == (alias.asname or alias.name):
                        origin = self._origin(module, statement)
                        return self._top_level(origin, alias.name, seen | {(module, name)})
        return None

    def _origin(self, module: str, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = module.split(".")
        kept = len(parts) - statement.level + (1 if self.is_package(module) else 0)
        return ".".join([*parts[:kept], *([statement.module] if statement.module else [])])


def _path(module: str, *, package: bool) -> str:
    return module.replace(".", "/") + ("/__init__.py" if package else ".py")


def _folder(folder: Path) -> tuple[Callable[[str], str | None], list[str]]:
    def read(name: str) -> str | None:
        path = folder / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    return read, [path.relative_to(folder).as_posix() for path in sorted((folder / "vllm").rglob("*.py"))]


def _wheel(path: Path) -> tuple[Callable[[str], str | None], list[str]]:
    wheel = zipfile.ZipFile(path)
    names = frozenset(wheel.namelist())

    def read(name: str) -> str | None:
        return wheel.read(name).decode("utf-8") if name in names else None

    return read, sorted(name for name in names if name.startswith("vllm/") and name.endswith(".py"))


def _flat(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements of a body and of the conditions and tries in it, in order."""
    flat: list[ast.stmt] = []
    for statement in body:
        flat.append(statement)
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for field in ("body", "handlers", "orelse", "finalbody"):
                for part in getattr(statement, field, ()):
                    flat += _flat(part.body) if isinstance(part, ast.ExceptHandler) else _flat([part])
    return flat


def _defined(body: list[ast.stmt], name: str) -> Definition | None:
    """The last definition of a name: it is the one that holds, and overloads come before it."""
    definitions = [
        statement
        for statement in _flat(body)
        if isinstance(statement, Function | ast.ClassDef) and statement.name == name
    ]
    return definitions[-1] if definitions else None
