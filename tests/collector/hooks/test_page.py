"""The page of hooks says everything the table says."""

import pytest

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.connectors import CONNECTORS, Connector
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.installation import Installation
from falseok_collector.hooks.page import hooks_page
from falseok_collector.settings import Settings

INSTALLATION = Installation(Emitter(Settings(sinks=("memory",))))
PAGE = hooks_page()


def row(name: str) -> list[str]:
    """Cells of the row that begins with a name."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("hook", INSTALLATION.hooks, ids=lambda hook: hook.name)
def test_every_hook_has_a_row(hook: Hook) -> None:
    """With all its functions, its releases, a process and what it gives."""
    _, functions, versions, process, gives = row(f"`{hook.name}`")
    assert all(f"`{hook.module}:{name}`" in functions for name in hook.attributes)
    assert {"vllm": str(hook.versions)}.get(hook.module.partition(".")[0], "any") == versions
    assert process in {"worker", "engine core", "API server", "engine core and worker"}
    assert hook.gives == gives


def test_every_method_of_the_agent_has_a_row() -> None:
    """They are wrapped as well."""
    for hook in INSTALLATION.agent_hooks:
        assert [f"`{hook.name}`", "worker", hook.gives] == [
            cell for index, cell in enumerate(row(f"`{hook.name}`")) if index != 1
        ]


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda connector: connector.name)
def test_every_connector_says_how_far_it_was_tried(connector: Connector) -> None:
    """Nobody shall take the source check for a run."""
    _, target, versions, tried = row(connector.name)
    assert (f"`{connector.target}`", str(connector.versions)) == (target, versions)
    assert (
        f"run live on {', '.join(connector.live)}" if connector.live else "source check only, not run live"
    ) == tried


@pytest.mark.parametrize("name", ["LMCacheConnectorV1", "LMCacheMPConnector", "MooncakeConnector"])
def test_what_was_never_run_is_said(name: str) -> None:
    """They need services or hardware that no test of ours has."""
    assert "source check only, not run live" == row(name)[-1]
