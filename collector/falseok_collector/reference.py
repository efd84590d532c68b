"""Writes the reference pages `events.md`, `settings.md`, `hooks.md` and `text-features.md` from what defines them.
It describes; it knows nothing of how events are made or stored.

    python -m falseok_collector.reference DOCS_DIRECTORY           writes the pages
    python -m falseok_collector.reference --check DOCS_DIRECTORY   exits with 1 when a page is not up to date
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from falseok_collector.attributes import ATTRIBUTES, AnsweredChoice, HookState, KvGroup, SinkState
from falseok_collector.events import CONTRACT_VERSION, Envelope, Origin
from falseok_collector.feature_catalogue import features_page
from falseok_collector.hooks.page import hooks_page
from falseok_collector.markdown import GENERATED, table
from falseok_collector.settings import CONFIG_VARIABLE, PREFIX, Settings

_PLAIN_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    msgspec.Raw: "object",
    Any: "any",
}
_CONTAINERS: dict[Any, str] = {list: "list", dict: "map"}
_NESTED: tuple[type[msgspec.Struct], ...] = (KvGroup, HookState, SinkState, AnsweredChoice)


def type_name(annotation: Any) -> str:
    """A field's type as JSON has it, for example `list of integer` or `boolean or null`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in {Union, UnionType}:
        return " or ".join("null" if part is NoneType else type_name(part) for part in arguments)
    if origin in _CONTAINERS:
        return f"{_CONTAINERS[origin]} of {type_name(arguments[-1])}"
    return _PLAIN_TYPES.get(annotation) or str(annotation.__name__)


def meaning(annotation: Any) -> str:
    """The description in a field's `Meta`, the outermost one first; empty when there is none."""
    if get_origin(annotation) is not Annotated:
        return ""
    described = (part.description for part in annotation.__metadata__ if isinstance(part, msgspec.Meta))
    return next((text for text in described if text), "")


def fields(struct: type[msgspec.Struct]) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of every field, in order."""
    hints = get_type_hints(struct, include_extras=True)
    for name in struct.__struct_fields__:
        yield name, type_name(hints[name]), meaning(hints[name])


def required(struct: type[msgspec.Struct]) -> list[str]:
    """Names of the fields without a default."""
    return [field.name for field in msgspec.structs.fields(struct) if field.required]


def events_page() -> str:
    """The event contract in full."""
    parts = [
        GENERATED,
        f"# Events, contract version {CONTRACT_VERSION}",
        (
            "An event is one line of JSON: the envelope below, with the event's own fields in `attrs`. "
            "Fields at their default (empty, 0, false, null) are left out. "
            "New fields are always optional; a removed or re-typed field needs a new version."
        ),
        "## Envelope",
        _table(Envelope),
        "Always there: " + ", ".join(f"`{name}`" for name in required(Envelope)) + ".",
        "`origin` is one of " + ", ".join(f"`{origin}`" for origin in Origin) + ".",
    ]
    for name, struct in ATTRIBUTES.items():
        parts += [f"## `{name}`", _summary(struct), _table(struct)]
    for nested in _NESTED:
        parts += [f"## Type `{nested.__name__}`", _summary(nested), _table(nested)]
    return "\n\n".join(parts) + "\n"


def settings_page() -> str:
    """Every setting of the collector."""
    documented = field_documentation(Settings)
    defaults = Settings()
    rows = [
        (f"`{PREFIX}{name.upper()}`", f"`{name}`", _default(getattr(defaults, name)), documented[name])
        for name in Settings.__struct_fields__
        if name != "problems"
    ]
    return (
        "\n\n".join(
            [
                GENERATED,
                "# Settings of the collector",
                (
                    "Environment variables of the engine's processes, or keys of the TOML file "
                    f"named by `{CONFIG_VARIABLE}`; the environment wins. "
                    "A wrong setting never stops an engine: the default holds, and the log says what is wrong. "
                    "An empty variable counts as not given."
                ),
                table(("Variable", "Key in the file", "Default", "Meaning"), rows),
            ]
        )
        + "\n"
    )


def field_documentation(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring below each field of a struct, by field name.

    Raises `KeyError` for a field without one.
    """
    (definition,) = ast.parse(inspect.getsource(struct)).body
    found: dict[str, str] = {}
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[field.target.id] = inspect.cleandoc(text).replace("\n", " ")
    return {name: found[name] for name in struct.__struct_fields__}


def write(directory: Path) -> None:
    """Write all pages below `directory`."""
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")


def outdated(directory: Path) -> list[str]:
    """Names of the pages in `directory` that are missing or differ from what `write` would put there."""
    return [
        name
        for name, text in pages().items()
        if not (directory / name).is_file() or (directory / name).read_text(encoding="utf-8") != text
    ]


def pages() -> dict[str, str]:
    """Text of every generated page by file name."""
    return {
        "events.md": events_page(),
        "settings.md": settings_page(),
        "hooks.md": hooks_page(),
        "text-features.md": features_page(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pages; the exit code."""
    summary, usage = (inspect.getdoc(sys.modules[__name__]) or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m falseok_collector.reference",
        description=summary,
        epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DOCS_DIRECTORY")
    parser.add_argument("--check", action="store_true", help="only say whether the pages are up to date")
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.directory)
        return 0
    old = outdated(options.directory)
    for name in old:
        sys.stderr.write(
            f"{options.directory / name} is not up to date: "
            f"python -m falseok_collector.reference {options.directory}\n"
        )
    return 1 if old else 0


def _summary(struct: type[msgspec.Struct]) -> str:
    return (inspect.getdoc(struct) or "").replace("\n", " ")


def _table(struct: type[msgspec.Struct]) -> str:
    rows = [(f"`{name}`", kind, text) for name, kind, text in fields(struct)]
    return table(("Field", "Type", "Meaning"), rows)


def _default(value: Any) -> str:
    if value in ("", ()):
        return "empty"
    if isinstance(value, bool):
        return "`1`" if value else "`0`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value}`"


if __name__ == "__main__":
    sys.exit(main())
