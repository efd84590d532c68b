"""Real hooks of the table on stand-ins for vLLM's classes, and the events that come of it."""

from typing import Any, NamedTuple

from tests.collector.hooks.reports import Reports

from falseok_collector.attributes import Attributes
from falseok_collector.deferred import Deferred
from falseok_collector.emitter import Emitter
from falseok_collector.hashing import KeyedHash
from falseok_collector.hooks.api_server import ApiServerObserver
from falseok_collector.hooks.connector_table import connector_hooks, data_parallel_hooks, push_hooks
from falseok_collector.hooks.connector_watch import ConnectorWatch
from falseok_collector.hooks.probe import Probe
from falseok_collector.hooks.push import PushObserver
from falseok_collector.hooks.scheduler import SchedulerObserver
from falseok_collector.hooks.table import agent_hooks, hook_table
from falseok_collector.hooks.worker import WorkerObserver
from falseok_collector.ring import Record
from falseok_collector.settings import Settings

SALTED = KeyedHash("pepper")


class Event(NamedTuple):
    """What a hook emitted, finished as the sender would."""

    attributes: Attributes
    record: Record

    @property
    def name(self) -> str:
        """Name of the event."""
        return self.attributes.event_name


class Hooked:
    """One process with all observers and no module of vLLM."""

    def __init__(self) -> None:
        self.emitter = Emitter(Settings(sinks=("memory",), salt="pepper"))
        self.reports = Reports()
        self.probes: list[Probe] = []
        worker = WorkerObserver(self.emitter)
        scheduler = SchedulerObserver(self.emitter)
        api = self.api = ApiServerObserver(self.emitter)
        self.worker, self.scheduler = worker, scheduler
        self.connectors = ConnectorWatch(self.emitter, scheduler, self.reports)
        table = (
            *hook_table(self.emitter, worker, scheduler, api),
            *connector_hooks(self.connectors, scheduler),
            *push_hooks(PushObserver(self.emitter, worker)),
            *data_parallel_hooks(api),
        )
        self._hooks = {hook.name: hook for hook in table}
        worker.nixl_probes = self.agent_probes = [
            Probe(hook.name, "nixl", after=hook.after, failed=hook.failed, report=self.reports)
            for hook in agent_hooks(worker)
        ]

    def wrap(self, owner: Any, **hook_names: str) -> None:
        """Install a hook of the table on each named attribute of a stand-in."""
        for attribute, name in hook_names.items():
            hook = self._hooks[name]
            probe = Probe(
                name,
                attribute,
                before=hook.before,
                after=hook.after,
                failed=hook.failed,
                around=hook.around,
                finally_=hook.set_up,
                report=self.reports,
            )
            assert probe.install(owner, attribute, hook.parameters), self.reports
            self.probes.append(probe)

    def events(self) -> list[Event]:
        """Everything emitted since the last look."""
        found = []
        for record in self.emitter.ring.take(1_000):
            attributes = record.attributes
            finished = attributes.finish(SALTED) if isinstance(attributes, Deferred) else attributes
            found.append(Event(finished, record))
        return found

    def only(self) -> Event:
        """The one event emitted since the last look."""
        (event,) = self.events()
        return event
