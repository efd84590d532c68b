"""Runs inside an engine's Python, or beside a stand-in of its modules, and tries to hurt it with the collector.

    python inside.py     prints one JSON document: what every hook did

The plug-in is loaded twice as vLLM does, then every module of the hook table is imported, so that the hooks wrap
what they find. Then the wrapped functions are replaced by ones that only return or raise, wrapped again, and called
with arguments that refuse everything, with observers that see them and with observers that raise whatever they see.
"""

import asyncio
import importlib
import inspect
import itertools
import json
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import wrapt

from falseok_collector import plugin
from falseok_collector.emitter import Emitter
from falseok_collector.hooks.connectors import CONNECTORS, INTERFACE, ONLY_SOME, Connector
from falseok_collector.hooks.installation import Installation
from falseok_collector.settings import Settings

RESULT = object()
AGENT_METHODS = ("get_new_notifs", "make_prepped_xfer", "get_xfer_telemetry", "release_xfer_handle")


class EngineError(Exception):
    """What the engine itself raises."""


class Hostile:
    """Refuses whatever an observer may do with an argument."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("refused")

    __getattr__ = __iter__ = __len__ = __bool__ = __str__ = __eq__ = __int__ = __hash__ = _refuse
    __getitem__ = __call__ = __contains__ = _refuse


class Agent:
    """Stands for the NIXL agent where NIXL is not installed."""

    def make_prepped_xfer(self, *_: Any) -> Any:
        """Nothing to do."""

    get_new_notifs = get_xfer_telemetry = release_xfer_handle = make_prepped_xfer


class Target:
    """One function of the hook table, where it is found."""

    def __init__(self, name: str, owner: Any, attribute: str) -> None:
        self.name = name
        self.owner = owner
        self.attribute = attribute

    @property
    def own(self) -> Any:
        """What the owner itself holds under the name, not bound to anything."""
        return vars(self.owner)[self.attribute]

    def call(self) -> Any:
        """Call it as the engine would, with arguments that refuse everything."""
        owner = instance(self.owner) if inspect.isclass(self.owner) else self.owner
        bound = getattr(owner, self.attribute)
        value = bound(*arguments(bound))
        return asyncio.run(value) if inspect.iscoroutine(value) else value


def instance(owner: type) -> Any:
    """An instance nothing was set up in, of a class that may be abstract."""
    concrete = type(owner.__name__, (owner,), {})
    concrete.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    return object.__new__(concrete)


def arguments(function: Any) -> list[Any]:
    """One for every positional parameter that has no default."""
    given = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is parameter.empty and parameter.kind in {
            parameter.POSITIONAL_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
        }:
            web = parameter.name == "scope"
            given.append(
                {"type": "http", "path": "/v1/chat/completions", "headers": []} if web else Hostile()
            )
    return given


def targets(made: Installation) -> tuple[list[Target], dict[str, str]]:
    """Functions the hooks wrap here, and why the others are not there."""
    found, missing = [], {}
    for hook in made.hooks:
        try:
            module = importlib.import_module(hook.module)
        except ImportError as error:
            missing[hook.name] = repr(error)
            continue
        for name in hook.attributes:
            *path, attribute = name.split(".")
            owner: Any = module
            for part in path:
                owner = getattr(owner, part, None)
            if owner is not None and attribute in vars(owner):
                found.append(Target(hook.name, owner, attribute))
                break
        else:
            missing[hook.name] = "no such function"
    return found, missing


def stand_in(original: Any, *, raises: BaseException | None) -> Any:
    """A function with the signature of another that returns RESULT or raises."""
    function = original.__func__ if isinstance(original, classmethod | staticmethod) else original

    def returning(*_: Any, **__: Any) -> Any:
        if raises is not None:
            raise raises
        return RESULT

    async def coroutine(*_: Any, **__: Any) -> Any:
        return returning()

    made: Any = coroutine if inspect.iscoroutinefunction(function) else returning
    made.__signature__ = inspect.signature(function)
    kind: Callable[[Any], Any] = type(original) if function is not original else lambda value: value
    return kind(made)


def try_out(target: Target, *, raises: bool, raise_in_hooks: bool) -> tuple[str, int]:
    """Call a wrapped function: what its caller sees that it would not see without the collector, and our errors."""
    error = EngineError("the engine's own") if raises else None
    original = target.own
    replaced = stand_in(original, raises=error)
    setattr(target.owner, target.attribute, replaced)
    made = installation(raise_in_hooks=raise_in_hooks)
    try:
        made.install()
        if type(target.own) is not wrapt.FunctionWrapper:
            return "not wrapped", 0
        outcome = seen_by_the_caller(target, error)
        made.uninstall()
        errors = sum(state.errors for state in made.states() if state.name == target.name)
        return outcome or ("" if target.own is replaced else "not restored"), errors
    finally:
        made.uninstall()
        made._emitter.close()
        setattr(target.owner, target.attribute, original)


def seen_by_the_caller(target: Target, error: BaseException | None) -> str:
    """Empty when it is what the function gave or raised."""
    watched = (
        target.name == "api.application"
    )  # its result is None in any ASGI application, and nobody looks at it
    try:
        value = target.call()
    except BaseException as caught:  # noqa: BLE001 - whatever comes is looked at
        if caught is not error:
            return f"raised {caught!r}"
        return "" if caught.__context__ is None and caught.__cause__ is None else "its exception was added to"
    if error is not None:
        return "its exception was swallowed"
    return "" if value is RESULT or watched else f"returned {value!r}"


def installation(*, raise_in_hooks: bool) -> Installation:
    """Every hook, with a sink that writes nothing."""
    return Installation(Emitter(Settings(sinks=("memory",), raise_in_hooks=raise_in_hooks)))


def hash_factors() -> Any:
    """The function that an observer swaps for the time of one call."""
    return importlib.import_module("vllm.config.utils").hash_factors


def nixl_agent() -> Any:
    """A real agent where NIXL is installed."""
    try:
        api: ModuleType = importlib.import_module("nixl._api")
    except ImportError:
        return Agent()
    return api.nixl_agent("falseok-harmlessness", api.nixl_agent_config(backends=[]))


def agent_report() -> dict[str, Any]:
    """The agent's own methods: wrapped on the instance, harmless, and gone afterwards."""
    report: dict[str, Any] = {}
    for raise_in_hooks in (False, True):
        agent = nixl_agent()
        before = set(vars(agent))
        made = installation(raise_in_hooks=raise_in_hooks)
        for method in AGENT_METHODS:
            setattr(agent, method, stand_in(getattr(type(agent), method), raises=None))
        worker: Any = made._worker
        worker.watch_agent(SimpleNamespace(instance=SimpleNamespace(nixl_wrapper=agent)))
        report["states"] = {
            probe.name: probe.state for probe in made.probes() if probe.name.startswith("nixl.")
        }
        report[f"results, observers raise: {raise_in_hooks}"] = [
            getattr(agent, method)(Hostile(), Hostile(), Hostile()) is RESULT for method in AGENT_METHODS
        ]
        made.uninstall()
        for method in AGENT_METHODS:
            delattr(agent, method)
        report["left behind"] = sorted(set(vars(agent)) - before)
    return report


def connector_report(connector: Connector) -> dict[str, Any] | None:
    """The methods of one connector, wrapped on an instance as the factory's hook does; None when it can't be had."""
    try:
        owner = getattr(importlib.import_module(connector.module), connector.class_name)
    except ImportError:
        return None
    report: dict[str, Any] = {"states": {}, "hurt": [], "left behind": []}
    for raise_in_hooks, role in itertools.product((False, True), ("SCHEDULER", "WORKER")):
        made, one = installation(raise_in_hooks=raise_in_hooks), instance(owner)
        methods = [name for name in INTERFACE | ONLY_SOME if hasattr(owner, name)]
        for name in methods:
            setattr(type(one), name, stand_in(inspect.getattr_static(owner, name), raises=None))
        config = SimpleNamespace(
            kv_transfer_config=SimpleNamespace(engine_id="e"), parallel_config=SimpleNamespace(rank=0)
        )
        created: Any = SimpleNamespace(
            argument={"config": config, "role": SimpleNamespace(name=role)}.__getitem__
        )
        made.connectors.after_create(created, None, one)
        report["states"] |= {state.name: state.state for state in made.connectors.states()}
        for name in methods:
            bound = getattr(one, name)
            if bound(*arguments(bound)) is not RESULT:
                report["hurt"].append(f"{name}, observers raise: {raise_in_hooks}")
        made.uninstall()
        report["left behind"] += vars(one)
    return report


def load_as_vllm_does() -> None:
    """Again, and once more through vLLM's own loader where there is one."""
    plugin.register()
    try:
        plugins = importlib.import_module("vllm.plugins")
    except ImportError:
        return
    plugins.load_general_plugins()


def main() -> None:
    """Print the report."""
    plugin.register()
    loaded = sorted({"kafka", "opentelemetry.sdk", "torch", "vllm", "nixl"} & set(sys.modules))
    load_as_vllm_does()
    armed = plugin._installation
    assert armed is not None
    found, missing = targets(armed)
    report: dict[str, Any] = {
        "loaded": loaded,
        "missing": missing,
        "states": {state.name: state.state for state in armed.states() if not state.name.startswith("nixl.")},
        "targets": [target.name for target in found],
    }
    active = [target for target in found if report["states"][target.name] == "active"]
    wrapped = {target.name: target.own for target in active}
    report["wrapped twice"] = [
        name for name, own in wrapped.items() if type(own.__wrapped__) is wrapt.FunctionWrapper
    ]
    armed.install()
    report["wrapped anew"] = [target.name for target in active if target.own is not wrapped[target.name]]
    armed.uninstall()
    report["not restored"] = [
        target.name for target in active if target.own is not wrapped[target.name].__wrapped__
    ]
    report["hurt"], raised = {}, set()
    before = hash_factors()
    for raise_in_hooks, raises, target in itertools.product((False, True), (False, True), active):
        problem, errors = try_out(target, raises=raises, raise_in_hooks=raise_in_hooks)
        if problem:
            report["hurt"][f"{target.name}, raises: {raises}, observers raise: {raise_in_hooks}"] = problem
        if raise_in_hooks and errors:
            raised.add(target.name)
    report["observers raised"] = sorted(raised)
    report["hash_factors is the engine's"] = hash_factors() is before
    report["agent"] = agent_report()
    report["connectors"] = {
        connector.name: connector_report(connector)
        for connector in CONNECTORS
        if not connector.name.startswith("Nixl")  # the hooks of the table are for those
    }
    print(json.dumps(report))  # noqa: T201 - it is what the script is for


if __name__ == "__main__":
    main()
