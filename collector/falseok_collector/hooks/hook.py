"""One entry of the hook table."""

from collections.abc import Callable
from dataclasses import dataclass

from falseok_collector.hooks.probe import After, Around, Before, Call, Failed
from falseok_collector.hooks.versions import SUPPORTED, Versions


@dataclass(frozen=True)
class Hook:
    """One wrapped function."""

    name: str
    module: str
    attributes: tuple[str, ...]
    """Qualified names in the module, in order of preference."""
    gives: str
    """The evidence it yields: shown when the hook is unavailable."""
    parameters: tuple[str, ...] = ()
    """Parameters of the target that the observer cannot do without."""
    versions: Versions = SUPPORTED
    """Releases of vLLM that have the target; in others it is not looked for."""
    reads: tuple[str, ...] = ()
    """What the observer reads beside the parameters: a name is an attribute of the target's own instance,
    `module:Class.name` one of another class, `module:function` a function; `… since 0.30` where older releases
    lack it and the observer does without."""
    before: Before | None = None
    after: After | None = None
    failed: Failed | None = None
    around: Around | None = None
    set_up: Callable[[Call], None] | None = None
    """What must be in place after the call, whether or not observing it worked."""
    starts_sender: bool = False
    """The process forks no more after this call, so that the sender thread may start."""
