"""Hooks are armed when a module is imported, whichever way and whenever that happens."""

import importlib
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from falseok_collector.attributes import CollectorHookUnavailable, HookState
from falseok_collector.emitter import Emitter
from falseok_collector.hooks import installation
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.installation import Installation
from falseok_collector.hooks.versions import Versions
from falseok_collector.settings import Settings

SOURCE = """
class Scheduler:
    def __init__(self):
        self.finished = []

    def finish(self, request):
        self.finished.append(request)
        return len(self.finished)

def compute(config):
    return "hash of " + config
"""

_numbers = count(1)


@pytest.fixture
def module_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of a real module on disk that nothing has imported yet."""
    name = f"engine_for_hooks_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


class Observed(list[Any]):
    """What the hooks saw."""

    def before(self, call: Any) -> None:
        """Keep the first argument."""
        self.append(call.args[0] if call.args else None)


def install(
    monkeypatch: pytest.MonkeyPatch, *hooks: Hook, settings: Settings | None = None
) -> tuple[Installation, Emitter]:
    """An installation with its own table of hooks."""
    monkeypatch.setattr(installation, "hook_table", lambda *_: hooks)
    monkeypatch.setattr(installation, "connector_hooks", lambda *_: ())
    monkeypatch.setattr(installation, "push_hooks", lambda *_: ())
    monkeypatch.setattr(installation, "data_parallel_hooks", lambda *_: ())
    emitter = Emitter(settings or Settings(sinks=("memory",), flush_seconds=0.001))
    made = Installation(emitter)
    made.install()
    return made, emitter


def states(made: Installation) -> dict[str, str]:
    """State by hook name, without the agent's hooks."""
    return {state.name: state.state for state in made.states() if not state.name.startswith("nixl.")}


def unavailable(emitter: Emitter) -> list[CollectorHookUnavailable]:
    """What was reported as unavailable and waits to be sent."""
    waiting = [record.attributes for record in emitter.ring.take(100)]
    return [attributes for attributes in waiting if isinstance(attributes, CollectorHookUnavailable)]


def test_a_module_imported_later_is_wrapped_when_it_is_imported(
    module_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installing imports nothing: vLLM's modules have side effects."""
    seen = Observed()
    made, _ = install(
        monkeypatch, Hook("core.finish", module_name, ("Scheduler.finish",), "x", before=seen.before)
    )
    assert module_name not in sys.modules
    assert {"core.finish": "pending"} == states(made)
    module = importlib.import_module(module_name)
    assert {"core.finish": "active"} == states(made)
    assert 1 == module.Scheduler().finish("r")
    assert ["r"] == seen


def test_a_module_imported_earlier_is_wrapped_at_once(
    module_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM may load plug-ins late."""
    module = importlib.import_module(module_name)
    seen = Observed()
    made, _ = install(monkeypatch, Hook("worker.hash", module_name, ("compute",), "x", before=seen.before))
    assert {"worker.hash": "active"} == states(made)
    assert "hash of c" == module.compute("c")
    assert ["c"] == seen


def test_uninstalling_puts_everything_back(module_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By identity; and it can be installed again."""
    module = importlib.import_module(module_name)
    originals = module.compute, vars(module.Scheduler)["finish"]
    made, emitter = install(
        monkeypatch,
        Hook("worker.hash", module_name, ("compute",), "x"),
        Hook("core.finish", module_name, ("Scheduler.finish",), "x"),
    )
    made.uninstall()
    assert (module.compute, vars(module.Scheduler)["finish"]) == originals
    assert {"worker.hash": "pending", "core.finish": "pending"} == states(made)
    made.install()
    assert {"worker.hash": "active", "core.finish": "active"} == states(made)
    made.uninstall()
    assert module.compute is originals[0]
    assert [] == unavailable(emitter)


def test_after_uninstalling_a_late_import_is_left_alone(
    module_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import hook stays with the interpreter, but does nothing any more."""
    made, _ = install(monkeypatch, Hook("worker.hash", module_name, ("compute",), "x"))
    made.uninstall()
    module = importlib.import_module(module_name)
    assert type(module.compute).__name__ == "function"
    assert {"worker.hash": "pending"} == states(made)


def test_installing_twice_wraps_once(module_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM loads plug-ins several times in a process."""
    seen = Observed()
    made, _ = install(monkeypatch, Hook("worker.hash", module_name, ("compute",), "x", before=seen.before))
    made.install()
    importlib.import_module(module_name).compute("c")
    made.install()
    importlib.import_module(module_name).compute("d")
    assert ["c", "d"] == seen
    made.uninstall()


def test_the_first_name_that_exists_is_taken(module_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions name the same thing differently."""
    seen = Observed()
    hook = Hook("core.finish", module_name, ("Scheduler.end", "Scheduler.finish"), "x", before=seen.before)
    made, _ = install(monkeypatch, hook)
    importlib.import_module(module_name).Scheduler().finish("r")
    assert ["r"] == seen
    made.uninstall()


@pytest.mark.parametrize(
    ("attributes", "parameters", "expected"),
    [
        (("Scheduler.end",), (), ("missing_symbol", "end does not exist")),
        (("Scheduler.end", "Scheduler.stop"), (), ("missing_symbol", "end does not exist")),
        (("Planner.finish",), (), ("missing_symbol", "Planner.finish does not exist")),
        (("absent",), (), ("missing_symbol", "absent does not exist")),
        (("Scheduler.finish",), ("request", "now"), ("signature", "parameter now is not there")),
    ],
    ids=["no method", "no alternative", "no class", "no function", "no parameter"],
)
def test_a_hook_that_does_not_fit_is_reported_as_an_event(
    module_name: str,
    monkeypatch: pytest.MonkeyPatch,
    attributes: tuple[str, ...],
    parameters: tuple[str, ...],
    expected: tuple[str, str],
) -> None:
    """The others are armed all the same, and the import succeeds."""
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setattr(sys.modules["vllm"], "__version__", "0.99.0", raising=False)
    made, emitter = install(
        monkeypatch,
        Hook("core.odd", module_name, attributes, "x", parameters=parameters),
        Hook("worker.hash", module_name, ("compute",), "x"),
    )
    importlib.import_module(module_name)
    assert {"core.odd": "unavailable", "worker.hash": "active"} == states(made)
    reason, detail = expected
    event = CollectorHookUnavailable(
        hook="core.odd",
        target=f"{module_name}:{attributes[0]}",
        reason=reason,
        detail=detail,
        vllm_version="0.99.0",
    )
    assert [event] == unavailable(emitter)
    made.uninstall()


def test_a_hook_of_other_versions_is_absent_and_nothing_to_report(
    module_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not looked for, neither where it would be missing nor where the name means something else."""
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setattr(sys.modules["vllm"], "__version__", "0.29.0", raising=False)
    made, emitter = install(
        monkeypatch,
        Hook("core.later", module_name, ("Scheduler.end",), "x", versions=Versions("0.30", "0.33")),
        Hook("core.earlier", module_name, ("Scheduler.finish",), "x", versions=Versions("0.26", "0.28")),
        Hook("worker.hash", module_name, ("compute",), "x", versions=Versions("0.26", "0.29")),
    )
    module = importlib.import_module(module_name)
    assert {"core.later": "absent", "core.earlier": "absent", "worker.hash": "active"} == states(made)
    assert "function" == type(vars(module.Scheduler)["finish"]).__name__
    assert [] == unavailable(emitter)
    made.uninstall()


def test_a_module_that_fails_to_import_fails_as_without_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its own error."""
    name = f"engine_for_hooks_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('no GPU')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    made, _ = install(monkeypatch, Hook("worker.hash", name, ("compute",), "x"))
    with pytest.raises(RuntimeError, match="no GPU"):
        importlib.import_module(name)
    assert {"worker.hash": "pending"} == states(made)


def test_the_sender_starts_after_the_call_of_a_hook_that_starts_it(
    module_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not at the import: the process may still fork before that call."""
    made, emitter = install(
        monkeypatch, Hook("core.scheduler", module_name, ("Scheduler.__init__",), "x", starts_sender=True)
    )
    module = importlib.import_module(module_name)
    assert [] == emitter.sinks
    module.Scheduler()
    assert ["memory"] == [sink.name for sink in emitter.sinks]
    emitter.close()
    made.uninstall()


def test_the_sender_starts_although_setting_up_failed(
    module_name: str, monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """Whatever else can be observed is still worth sending."""

    def set_up(call: Any) -> None:
        raise RuntimeError("our trouble")

    made, emitter = install(
        monkeypatch,
        Hook("core.scheduler", module_name, ("Scheduler.__init__",), "x", set_up=set_up, starts_sender=True),
    )
    importlib.import_module(module_name).Scheduler()
    assert ["memory"] == [sink.name for sink in emitter.sinks]
    assert ["falseok: hook core.scheduler failed and serving goes on: RuntimeError('our trouble')"] == (
        swallowed_errors
    )
    emitter.close()
    made.uninstall()


def test_the_test_aid_reaches_every_hook(
    module_name: str, monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """FALSEOK_RAISE_IN_HOOKS is how the lab proves that serving never notices."""
    seen = Observed()
    made, _ = install(
        monkeypatch,
        Hook("worker.hash", module_name, ("compute",), "x", before=seen.before),
        settings=Settings(sinks=("memory",), raise_in_hooks=True),
    )
    assert "hash of c" == importlib.import_module(module_name).compute("c")
    assert ([], True) == (seen, made._emitter.settings.raise_in_hooks)
    assert [HookState(name="worker.hash", state="active", calls=1, errors=1)] == made.states()[:1]
    assert 1 == len(swallowed_errors)
    made.uninstall()


def test_the_emitter_tells_the_states_of_all_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat shows which evidence is missing, the agent's methods included."""
    made, emitter = install(monkeypatch)
    assert made.states() == emitter.hook_states()
    assert {
        "nixl.get_new_notifs",
        "nixl.make_prepped_xfer",
        "nixl.get_xfer_telemetry",
        "nixl.release_xfer_handle",
    } == {state.name for state in emitter.hook_states()}
    made.uninstall()
