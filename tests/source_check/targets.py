"""What the hook table wraps and reads in vLLM, as `module:qualified name`."""

from collections.abc import Iterable, Iterator

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.connectors import INTERFACE, ONLY_SOME, Connector
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.installation import Installation
from falseok_collector.hooks.versions import SUPPORTED, Versions
from falseok_collector.settings import Settings

ENGINE = "vllm."
"""Hooks on other packages (FastAPI) are checked where these are installed."""


def table() -> tuple[Hook, ...]:
    """The hook table of this release, those hooks that wrap functions of vLLM."""
    made = Installation(Emitter(Settings(sinks=("memory",))))
    return tuple(hook for hook in made.hooks if hook.module.startswith(ENGINE))


def functions(hooks: Iterable[Hook], connectors: Iterable[Connector] = ()) -> list[str]:
    """Every function a hook may wrap, and the methods of connectors that are watched."""
    watched = {f"{connector.target}.{method}" for connector in connectors for method in INTERFACE | ONLY_SOME}
    return sorted(watched.union(target for hook in hooks for target in wrapped(hook)))


def attributes(hooks: Iterable[Hook]) -> list[str]:
    """Every attribute an observer reads beside the parameters."""
    return sorted({name for hook in hooks for name in read_by(hook)})


def wrapped(hook: Hook) -> list[str]:
    """Functions of a hook in order of preference."""
    return [f"{hook.module}:{name}" for name in hook.attributes]


def read_by(hook: Hook, version: str = "") -> list[str]:
    """What the observer of a hook reads, in one release or in any, with the target's class where none is named.

    Raises `ValueError` when a plain name is read and the target is a function without a class.
    """
    return [full for read in hook.reads for full in _full_names(hook, read, version)]


def _full_names(hook: Hook, read: str, version: str) -> Iterator[str]:
    name, _, since = read.partition(" since ")
    if since and not Versions(since, SUPPORTED.last).includes(version):
        return
    if ":" in name:
        yield name
        return
    for owner in dict.fromkeys(target.rpartition(".")[0] for target in hook.attributes):
        if not owner:
            raise ValueError(f"hook {hook.name} reads {name}, but {hook.attributes} belongs to no class")
        yield f"{hook.module}:{owner}.{name}"
