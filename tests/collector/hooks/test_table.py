"""Laws of the hook table."""

import pytest

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.installation import Installation
from falseok_collector.hooks.table import agent_hooks
from falseok_collector.hooks.worker import WorkerObserver
from falseok_collector.settings import Settings

EMITTER = Emitter(Settings(sinks=("memory",)))
WORKER = WorkerObserver(EMITTER)
TABLE = Installation(EMITTER).hooks
AGENT = agent_hooks(WORKER)


def test_names_are_unique() -> None:
    """Heartbeats and reports name hooks by them."""
    names = [hook.name for hook in TABLE] + [hook.name for hook in AGENT]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("hook", TABLE, ids=lambda hook: hook.name)
def test_every_hook_says_what_it_gives_and_looks_at_something(hook: Hook) -> None:
    """A hook that observes nothing would cost without use; one that takes over observes nothing else."""
    observers = [hook.before, hook.after, hook.failed, hook.set_up]
    assert hook.gives
    assert hook.attributes
    assert (hook.around is None) == any(observer is not None for observer in observers)


def test_no_two_hooks_wrap_the_same_function() -> None:
    """The second would wrap the first."""
    targets = [(hook.module, attribute) for hook in TABLE for attribute in hook.attributes]
    assert sorted(set(targets)) == sorted(targets)


def test_each_kind_of_process_starts_its_sender() -> None:
    """Worker, engine core and API server: without it nothing is ever written."""
    assert {"worker", "core", "api"} == {hook.name.partition(".")[0] for hook in TABLE if hook.starts_sender}
