"""A package called vllm with nothing in it but the functions that the hook table wraps or reads, as one release defines them.

Made from the signatures on file, so that what a hook meets in each release can be tried without an engine.
"""

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.source_check.signatures import Signature, Signatures

_APPLICATION = """
class FastAPI:
    async def __call__(self, scope, receive, send):
        return "answered"
"""


def make(
    folder: Path, version: str, signatures: Signatures, returns: Mapping[str, str] | None = None
) -> Path:
    """Write the package of one release below `folder`, and return what has to be on the path.

    `returns` has an expression by qualified name of a function; the others return None.
    """
    modules: dict[str, list[str]] = defaultdict(list)
    for target, by_version in sorted(signatures.functions.items()):
        module, _, name = target.partition(":")
        signature = by_version[version]
        if signature is not None:
            modules[module].append(_source(name, signature, (returns or {}).get(name, "None")))
    for name, homes in sorted(signatures.attributes.items()):
        module, _, function = name.partition(":")
        if "." not in function and homes[version]:
            modules[module].append(f"def {function}(*arguments, **named): ...")
    for module, sources in modules.items():
        # Annotations name things this package has not: they stay text.
        _write(folder, module, "\n".join(["from __future__ import annotations", *_merged(sources)]))
    (folder / "vllm" / "__init__.py").write_text(f"__version__ = {version!r}\n", encoding="utf-8")
    _write(folder, "fastapi.applications", _APPLICATION)
    return folder


def _source(name: str, signature: Signature, returned: str) -> str:
    (function,) = ast.parse(f"{signature.definition}: return {returned}").body
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    owner, _, function.name = name.rpartition(".")
    arguments = function.args
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [default and ast.Constant(None) for default in arguments.kw_defaults]
    text = ast.unparse(function)
    if not owner:
        return text
    # A static method is the one kind that has no instance first.
    static = [] if [one.arg for one in arguments.args][:1] in (["self"], ["cls"]) else ["@staticmethod"]
    lines = "\n".join([*static, *text.splitlines()]).splitlines()
    return f"class {owner}:\n" + "\n".join(f"    {line}" for line in lines)


def _merged(sources: list[str]) -> list[str]:
    """One class for all its methods."""
    merged: dict[str, list[str]] = {}
    for source in sources:
        first, _, rest = source.partition("\n")
        if first.startswith("class "):
            merged.setdefault(first, []).append(rest)
        else:
            merged[source] = []
    return ["\n".join([first, *rest]) for first, rest in merged.items()]


def _write(folder: Path, module: str, text: str) -> None:
    path = folder / (module.replace(".", "/") + ".py")
    if (folder / module.replace(".", "/")).is_dir():
        path = folder / module.replace(".", "/") / "__init__.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    for parent in path.relative_to(folder).parents:
        if parent.name and not (folder / parent / "__init__.py").exists():
            (folder / parent / "__init__.py").touch()
