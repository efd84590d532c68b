"""Reads the sources of vLLM releases and writes what they say about the hook table to `signatures.json`.

    python -m tests.source_check.extract 0.33.0=FOLDER_OR_WHEEL …    one or more releases
    python -m tests.source_check.extract FOLDER                     all it has: wheels, and folders named as a release

A folder must contain `vllm`. Releases that are not named keep what is on file. Nothing is imported or started.
"""

import argparse
import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.source_check import targets
from tests.source_check.signatures import FILE, Signature, Signatures, read, write
from tests.source_check.sources import Definition, Found, Function, Sources

from falseok_collector.hooks.connectors import CONNECTORS

_DIGEST_CHARACTERS = 16
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_WHEEL = re.compile(r"vllm(?:_cpu)?-(\d+\.\d+\.\d+)[-+].*\.whl")


def extract(
    sources: Mapping[str, Sources], functions: Iterable[str], attributes: Iterable[str]
) -> Signatures:
    """Signatures and attributes in each version."""
    return Signatures(
        sorted(sources),
        {
            target: {version: function_in(sources[version], target) for version in sources}
            for target in functions
        },
        {name: {version: owner_in(sources[version], name) for version in sources} for name in attributes},
    )


def function_in(sources: Sources, target: str) -> Signature | None:
    """How one version defines a function; None when it does not."""
    module, _, name = target.partition(":")
    found = sources.find(module, name)
    owner_name, _, member = name.rpartition(".")
    owner = sources.find(module, owner_name) if owner_name else None
    if found is not None:
        below = sources.subclasses(owner) if owner is not None else []
        return _signature(found, module, tuple(_full_name(one) for one in below if _hides(one, member)))
    for base in sources.bases(owner) if owner is not None else ():
        inherited = sources.find(base.module, f"{base.node.name}.{member}")
        if inherited is not None and isinstance(inherited.node, Function):
            return Signature(_header(inherited.node), digest(inherited.node), "", _full_name(base))
    return None


def owner_in(sources: Sources, attribute: str) -> str:
    """Which class gives its instances this attribute, itself or a base; of a function, itself; empty when none."""
    module, _, name = attribute.partition(":")
    owner_name, _, member = name.rpartition(".")
    owner = sources.find(module, owner_name or member)
    if owner is None:
        return ""
    if not owner_name:
        return _full_name(owner)
    owners = [owner, *sources.bases(owner)]
    return next((_full_name(one) for one in owners if member in set(attributes_of(one.node))), "")


def attributes_of(node: Definition) -> Iterator[str]:
    """Names a class gives its instances: methods, class variables, fields, and what is set on `self`."""
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=names):
                yield from (one.id for one in names if isinstance(one, ast.Name))
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def digest(node: Function) -> str:
    """Digest of a body: the same for the same statements, whatever the docstring, comments and layout."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    text = "\n".join(_canonical(statement) for statement in body)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def named_sources(arguments: list[str]) -> dict[str, Path]:
    """Where each version's sources are, from the command's arguments.

    Raises `ValueError` for an argument that names none.
    """
    found: dict[str, Path] = {}
    for argument in arguments:
        version, equals, path = argument.partition("=")
        if equals and _RELEASE.fullmatch(version):
            found[version] = Path(path)
            continue
        inside = dict(_releases_in(Path(argument)))
        if not inside:
            raise ValueError(f"{argument}: neither VERSION=PATH nor a folder with wheels or releases in it")
        found |= inside
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write `signatures.json`; the exit code."""
    summary, usage = (inspect.getdoc(sys.modules[__name__]) or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m tests.source_check.extract",
        description=summary,
        epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sources", nargs="+", metavar="VERSION=PATH|FOLDER")
    options = parser.parse_args(arguments)
    try:
        sources = {version: Sources.open(path) for version, path in named_sources(options.sources).items()}
    except (ValueError, OSError, SyntaxError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    hooks = targets.table()
    extracted = extract(sources, targets.functions(hooks, CONNECTORS), targets.attributes(hooks))
    merged = merge(read(), extracted) if FILE.is_file() else extracted
    write(merged)
    sys.stderr.write(f"{FILE.name}: {', '.join(sorted(sources))} read; it has {', '.join(merged.versions)}\n")
    return 0


def merge(old: Signatures, new: Signatures) -> Signatures:
    """The new ones, and of the old ones the versions that were not read again, for targets still in the table."""
    kept = old.without(new.versions)
    return Signatures(
        sorted([*kept.versions, *new.versions]),
        {name: kept.functions.get(name, {}) | by_version for name, by_version in new.functions.items()},
        {name: kept.attributes.get(name, {}) | by_version for name, by_version in new.attributes.items()},
    )


def _hides(found: Found, member: str) -> bool:
    """Whether a class has a method of its own that does not go on to the one above."""
    own = [one for one in found.node.body if isinstance(one, Function) and one.name == member]
    return bool(own) and f"super().{member}(" not in ast.unparse(own[-1])


def _signature(found: Found, wrapped_in: str, overridden_in: tuple[str, ...]) -> Signature | None:
    if not isinstance(found.node, Function):
        return None
    elsewhere = found.module if found.module != wrapped_in else ""
    return Signature(_header(found.node), digest(found.node), elsewhere, overridden_in=overridden_in)


def _header(node: Function) -> str:
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{prefix} {node.name}({ast.unparse(node.args)}){returns}"


def _full_name(found: Found) -> str:
    return f"{found.module}:{found.node.name}"


def _canonical(value: Any) -> str:
    """A syntax tree as text that does not depend on the Python that parsed it: empty fields are left out."""
    if isinstance(value, ast.AST):
        fields = ",".join(
            f"{name}={_canonical(part)}"
            for name, part in ast.iter_fields(value)
            if part not in (None, []) and name not in {"kind", "type_comment"}
        )
        return f"{type(value).__name__}({fields})"
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    return repr(value)


def _releases_in(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        wheel = _WHEEL.fullmatch(path.name)
        if wheel is not None:
            yield wheel.group(1), path
        elif path.is_dir() and _RELEASE.fullmatch(path.name):
            yield path.name, path


if __name__ == "__main__":
    sys.exit(main())
