"""Installs the hook table: each hook when vLLM first imports the module it targets, never earlier.

Importing vLLM's modules ourselves would load NIXL and UCX, with their side effects, in processes that never
use them.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import wrapt

from falseok_collector.attributes import CollectorHookUnavailable, HookState
from falseok_collector.emitter import Emitter
from falseok_collector.hooks import log_location
from falseok_collector.hooks.api_server import ApiServerObserver
from falseok_collector.hooks.connector_table import connector_hooks, data_parallel_hooks, push_hooks
from falseok_collector.hooks.connector_watch import ConnectorWatch
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.probe import Call, Probe
from falseok_collector.hooks.push import PushObserver
from falseok_collector.hooks.scheduler import SchedulerObserver
from falseok_collector.hooks.table import agent_hooks, hook_table
from falseok_collector.hooks.worker import WorkerObserver


class Installation:
    """All hooks of one process."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._worker = WorkerObserver(emitter)
        scheduler = SchedulerObserver(emitter)
        api = ApiServerObserver(emitter)
        self.connectors = ConnectorWatch(emitter, scheduler, self._report)
        self.hooks = (
            *hook_table(emitter, self._worker, scheduler, api),
            *connector_hooks(self.connectors, scheduler),
            *push_hooks(PushObserver(emitter, self._worker)),
            *data_parallel_hooks(api),
        )
        self.agent_hooks = agent_hooks(self._worker)
        self._probes = {hook.name: self._probe(hook) for hook in self.hooks}
        self._agent_probes = [
            Probe(
                hook.name,
                f"nixl_agent:{hook.name.rpartition('.')[2]}",
                after=hook.after,
                failed=hook.failed,
                report=self._report,
                raise_inside=emitter.settings.raise_in_hooks,
            )
            for hook in self.agent_hooks
        ]
        self._worker.nixl_probes = self._agent_probes
        self._installed = False

    @property
    def emitter(self) -> Emitter:
        """Through which all hooks tell what they see."""
        return self._emitter

    def install(self) -> None:
        """Arm every hook; idempotent. Modules that are imported already are wrapped at once."""
        if self._installed:
            return
        self._installed = True
        self._emitter.hook_states = self.states
        log_location.install()
        for module in dict.fromkeys(hook.module for hook in self.hooks):
            wrapt.register_post_import_hook(self._imported, module)

    def uninstall(self) -> None:
        """Put every original back. Hooks whose module was not imported yet stay unarmed from now on."""
        self._installed = False
        log_location.uninstall()
        self.connectors.uninstall()
        for probe in self.probes():
            probe.uninstall()

    def probes(self) -> list[Probe]:
        """Every probe, wrapped or not, but those of connectors, which come and go with them."""
        return [*self._probes.values(), *self._agent_probes]

    def states(self) -> list[HookState]:
        """State and counts of every hook, for the heartbeat."""
        return [*(probe.snapshot() for probe in self.probes()), *self.connectors.states()]

    def _probe(self, hook: Hook) -> Probe:
        return Probe(
            hook.name,
            f"{hook.module}:{hook.attributes[0]}",
            before=hook.before,
            after=hook.after,
            failed=hook.failed,
            around=hook.around,
            finally_=self._set_up(hook),
            report=self._report,
            raise_inside=self._emitter.settings.raise_in_hooks,
        )

    def _set_up(self, hook: Hook) -> Callable[[Call], None] | None:
        if hook.set_up is None and not hook.starts_sender:
            return None

        def run(call: Call) -> None:
            try:
                if hook.set_up is not None:
                    hook.set_up(call)
            finally:
                if hook.starts_sender:
                    self._emitter.start()

        return run

    def _imported(self, module: ModuleType) -> None:
        if not self._installed:
            return
        for hook in self.hooks:
            if hook.module == module.__name__:
                probe = self._probes[hook.name]
                if not hook.versions.includes(_vllm_version()):
                    probe.state = "absent"
                    continue
                try:
                    owner, attribute = _resolve(module, hook.attributes)
                    probe.install(owner, attribute, hook.parameters)
                except Exception as error:  # noqa: BLE001 - an import of vLLM must not fail because of us
                    probe.count_error(error)

    def _report(self, hook: str, target: str, reason: str, detail: str) -> None:
        self._emitter.emit(
            CollectorHookUnavailable(
                hook=hook,
                target=target,
                reason=reason,
                detail=detail,
                vllm_version=_vllm_version(),
            )
        )


def _vllm_version() -> str:
    """Version of the engine; empty where it is not loaded."""
    return str(getattr(sys.modules.get("vllm"), "__version__", ""))


def _resolve(module: ModuleType, names: tuple[str, ...]) -> tuple[Any, str]:
    """Owner and attribute of the first name that exists, of the first name when none does."""
    for name in names:
        owner, attribute = _owner(module, name)
        if owner is not None and attribute in vars(owner):
            return owner, attribute
    owner, attribute = _owner(module, names[0])
    return (module if owner is None else owner), (names[0] if owner is None else attribute)


def _owner(module: ModuleType, name: str) -> tuple[Any, str]:
    path, _, attribute = name.rpartition(".")
    owner: Any = module
    for part in path.split(".") if path else ():
        owner = getattr(owner, part, None)
    return owner, attribute
