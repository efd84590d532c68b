"""Watches connectors other than NIXL through the methods every connector has, on the objects themselves.

Subclasses override the methods of `KVConnectorBase_V1`, so wrapping that class would see nothing; wrapping the
methods it does define would count NIXL twice. The factory's result is wrapped instead, and under `MultiConnector`
its children, which tells the one that served. NIXL has hooks of its own on its class, under `MultiConnector` too.
"""

from collections.abc import Iterator
from typing import Any

from falseok_collector.attributes import HookState, KvInvalidBlocks, KvReadEnd
from falseok_collector.emitter import Emitter
from falseok_collector.engine_config import engine_config, side_channel
from falseok_collector.hooks.connector_loads import MODE, LoadObserver, raised
from falseok_collector.hooks.connectors import INTERFACE, ONLY_SOME
from falseok_collector.hooks.probe import After, Before, Call, Failed, Probe, Reporter
from falseok_collector.hooks.scheduler import SchedulerObserver

NIXL = "vllm.distributed.kv_transfer.kv_connector.v1.nixl"

_NEEDED = INTERFACE | ONLY_SOME
_MAX_PROBES = 256
"""An engine has a handful of connectors; a test suite that makes many is not watched without end."""


class ConnectorWatch:
    """Observers of the connectors of one process, both sides of them (with one rank they share a process)."""

    def __init__(self, emitter: Emitter, scheduler: SchedulerObserver, report: Reporter) -> None:
        self._emitter = emitter
        self._scheduler = scheduler
        self._report = report
        self.loads = LoadObserver(emitter, scheduler)
        self.probes: list[Probe] = []

    def after_create(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002 - one signature
        """The factory made a connector for the scheduler or for a worker."""
        config, connector = call.argument("config"), result
        leaves = list(_leaves(connector))
        others = [leaf for leaf in leaves if not _is_nixl(leaf)]
        if not others:
            return
        engine_id = str(config.kv_transfer_config.engine_id)
        if call.argument("role").name == "SCHEDULER":
            self._watch_scheduler_side(connector, others, engine_id, admits=len(others) == len(leaves))
        else:
            self._watch_worker_side(config, others, engine_id, alone=len(others) == len(leaves))

    def uninstall(self) -> None:
        """Put every original back and forget the connectors."""
        for probe in reversed(self.probes):
            probe.uninstall()
        self.probes.clear()

    def states(self) -> list[HookState]:
        """State and counts by name; children that share a name are one line."""
        found: dict[str, HookState] = {}
        for probe in self.probes:
            one = probe.snapshot()
            before = found.get(one.name)
            found[one.name] = one if before is None else _together(before, one)
        return list(found.values())

    # Scheduler side ------------------------------------------------------------------------------------------------

    def _watch_scheduler_side(
        self, connector: Any, others: list[Any], engine_id: str, *, admits: bool
    ) -> None:
        """`admits`: no NIXL connector is there whose own hooks would tell of admission and finish."""
        loads = self.loads
        finish = (
            "request_finished_all_groups"
            if any(base.__name__ == "SupportsHMA" for base in type(connector).__mro__)
            else "request_finished"
        )
        if admits:
            admission = Facade(connector, engine_id)
            self._wrap(
                connector,
                "on_new_request",
                before=lambda call: self._scheduler.before_new_request(admission.seen_by(call)),
            )
            self._wrap(
                connector,
                finish,
                before=lambda call: self._before_finish(admission.seen_by(call)),
                after=lambda call, state, result: self._scheduler.after_finish(
                    admission.seen_by(call), state, result
                ),
            )
        else:
            self._wrap(connector, finish, before=loads.before_finish)
        for child in others:
            self._wrap(
                child,
                "get_num_new_matched_tokens",
                after=loads.after_matched,
            )
            self._wrap(
                child,
                "update_state_after_alloc",
                before=loads.before_allocated,
            )
        self._wrap(connector, "update_connector_output", before=loads.before_output)
        self._wrap(connector, "build_connector_meta", before=loads.before_step)
        self._wrap(connector, "take_events", after=loads.after_step)

    def _before_finish(self, call: Call) -> None:
        self.loads.before_finish(call)
        self._scheduler.before_finish(call)

    # Worker side ---------------------------------------------------------------------------------------------------

    def _watch_worker_side(self, config: Any, others: list[Any], engine_id: str, *, alone: bool) -> None:
        """`alone`: no NIXL worker is there that would report the configuration."""
        emitter = self._emitter
        rank = int(config.parallel_config.rank)
        emitter.engine_id = emitter.engine_id or engine_id
        emitter.process = emitter.process or "worker"
        emitter.group = emitter.group or side_channel()
        if alone:
            emitter.emit(engine_config(config, "worker"), engine_id=engine_id, rank=rank)
        for child in others:
            observer = _Worker(emitter, self.loads, type(child).__name__, engine_id, rank)
            self._wrap(child, "start_load_kv", failed=observer.failed_load)
            self._wrap(child, "get_block_ids_with_load_errors", after=observer.after_load_errors)
            if hasattr(child, "get_transfer_results"):  # since 0.30
                self._wrap(child, "get_transfer_results", after=observer.after_results)

    def _wrap(
        self,
        connector: Any,
        method: str,
        *,
        before: Before | None = None,
        after: After | None = None,
        failed: Failed | None = None,
    ) -> None:
        if len(self.probes) >= _MAX_PROBES:
            return
        probe = Probe(
            f"connector.{method}",
            f"{type(connector).__module__}:{type(connector).__name__}.{method}",
            before=before,
            after=after,
            failed=failed,
            report=self._report,
            raise_inside=self._emitter.settings.raise_in_hooks,
        )
        self.probes.append(probe)
        probe.install(connector, method, _NEEDED[method])


class Facade:
    """A connector as the scheduler's observers expect one: with an `engine_id`, which only NIXL's has."""

    def __init__(self, connector: Any, engine_id: str) -> None:
        self._connector = connector
        self.engine_id = engine_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    def seen_by(self, call: Call) -> Call:
        """The same call with this as its instance."""
        return call.of(self)


class _Worker:
    """Observers of one rank's side of one connector."""

    def __init__(
        self, emitter: Emitter, loads: LoadObserver, connector: str, engine_id: str, rank: int
    ) -> None:
        self._emitter = emitter
        self._loads = loads
        self._connector = connector
        self._engine_id = engine_id
        self._rank = rank

    def failed_load(self, call: Call, state: Any, error: BaseException) -> None:  # noqa: ARG002
        """Loading raised, which ends the step and mostly the engine."""
        if not self._loads.failed_step(error, self._rank, self._connector):
            self._emit(raised(error, self._connector))

    def after_load_errors(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """Blocks this rank could not fill; asked every step."""
        if result:
            self._emit(KvInvalidBlocks(invalid_blocks=len(result), connector=self._connector))

    def after_results(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """Requests this rank finished; asked every step. Those that failed are named (0.30 and later)."""
        for request_id in result.failed_recving or ():
            self._emit(
                KvReadEnd(
                    outcome="failed",
                    failure_type="load_failed",
                    stage="load",
                    connector=self._connector,
                    mode=MODE,
                ),
                request_id,
            )

    def _emit(self, attributes: KvReadEnd | KvInvalidBlocks, request_id: str = "") -> None:
        self._emitter.emit(attributes, engine_id=self._engine_id, rank=self._rank, request_id=request_id)


def _leaves(connector: Any) -> Iterator[Any]:
    """The connector, or the children of a `MultiConnector` in the order they are asked."""
    children = vars(connector).get("_connectors")
    if not isinstance(children, list):
        yield connector
        return
    for child in children:
        yield from _leaves(child)


def _is_nixl(connector: Any) -> bool:
    return any(base.__module__.startswith(NIXL) for base in type(connector).__mro__)


def _together(one: HookState, other: HookState) -> HookState:
    """Of two probes of one name: the state that is worse, the sum of the counts."""
    worst = next(
        (state for state in ("unavailable", "disabled") if state in {one.state, other.state}), one.state
    )
    return HookState(
        name=one.name, state=worst, calls=one.calls + other.calls, errors=one.errors + other.errors
    )
