"""Starts and ends a real prefill/decode pair with its router. This is the lab's front door.

A pair outlives the command that starts it; `state.json` in its folder says what runs. Only processes started here
are ever signalled. Settings come as arguments: nothing is read from the environment or from a configuration.
"""

import re
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from falseok_lab import collector_install, environment, models
from falseok_lab.connectors import connector_named
from falseok_lab.environment import Engine
from falseok_lab.errors import LabError, PortTakenError
from falseok_lab.faults import fault_named
from falseok_lab.health import wait_until_healthy
from falseok_lab.launch import EXECUTORS, engine_launch, router_launch
from falseok_lab.models import model_named
from falseok_lab.ports import Ports, free_ports, require_free
from falseok_lab.preflight import require_memory, require_writable
from falseok_lab.processes import OwnProcess, alive, end, interruptible_by_sigterm, start, undisturbed
from falseok_lab.report import Reporter
from falseok_lab.sides import Side
from falseok_lab.state import STATE_FILE, PairState, find_state, lab_directory, read_state, write_state

__all__ = ["PairSettings", "PairState", "PairStatus", "Ports", "down", "read_state", "status", "up"]

SETTLE_SECONDS = 1.0
"""What the collectors of a pair are given to write their last events before it is ended."""

STARTS = 3
"""How often a pair is started in all when its engines lose a port they had found free."""

EARLIER = "earlier"
"""Folder inside a lab where what an earlier start left is moved to."""

UNFINISHED_START_SECONDS = 2.0
"""An engine that is still loading heeds no signal and has nothing to lose: it is not waited for long."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """What to start."""

    name: str
    data: Path
    """Data directory; the pair lives in `lab/<name>` below it."""
    cache: Path
    """Where engines and models are kept between starts; several data directories may share it."""
    vllm: str = "0.27.0"
    model: str = "tiny"
    fault: str = "none"
    collector: bool = True
    """False: installed, but turned off by `FALSEOK_ENABLED=0`."""
    collector_source: Path | None = None
    """A checkout to install the collector from; None: the FalseOK that runs this."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of both engines."""
    executor: str = "uni"
    """`uni`: the worker inside the engine core, as with one GPU an engine; `mp`: a worker process of its own."""
    connector: str = "pull"
    lease_seconds: int | None = None
    """How long prefill keeps blocks nobody has read; None: vLLM's own default, 30 s."""
    router_collector: bool = False
    """True: the router tells its answers, too, by the collector's middleware."""
    prefill: Side = field(default_factory=Side)
    decode: Side = field(default_factory=Side)
    ports: Ports | None = None
    """None: free ones are chosen, the same at every start while they stay free."""
    memory_needed_bytes: int | None = None
    """None: what the model is known to need."""
    start_timeout_seconds: float = 600.0


@dataclass(frozen=True, kw_only=True)
class PairStatus:
    """What runs of a pair."""

    state: PairState
    alive: dict[str, bool]
    """By role: prefill, decode, router."""

    @property
    def running(self) -> bool:
        """Whether all of it runs."""
        return bool(self.alive) and all(self.alive.values())


def up(settings: PairSettings, reporter: Reporter) -> PairState:
    """Build what is missing, start both engines and the router, and wait until they answer.

    Blocks for 20 to 60 seconds, the first time for minutes. An engine that lost a port to somebody else is started
    again with its pair, up to `STARTS` times in all. When it fails or is interrupted (Ctrl-C, SIGTERM),
    everything it started has ended. Files of an earlier start of the same name are moved to `earlier/`.

    Raises:
        LabError: a setting is wrong, the pair is already up, a port is taken, memory or disk is short, an
            installation failed, or a process did not come up.
    """
    _check(settings)
    directory = lab_directory(settings.name, settings.data)
    require_writable(directory)
    _require_down(settings.name, directory)
    engine = environment.build(settings.vllm, settings.cache, reporter)
    fingerprint = collector_install.install(engine, settings.collector_source, reporter)
    model_folder = models.build(settings.model, engine, settings.cache, reporter)
    _check_machine(settings)

    def attempt() -> PairState:
        _set_aside(directory)
        state = _new_state(settings, directory, engine, model_folder, fingerprint)
        return _start(state, engine, settings, reporter)

    attempts = Retrying(
        retry=retry_if_exception_type(PortTakenError),
        stop=stop_after_attempt(STARTS),
        before_sleep=lambda _: reporter.step("An engine found a port of its own taken: once more"),
        reraise=True,
    )
    return attempts(attempt)


def down(name: str, data: Path, reporter: Reporter) -> int:
    """End what runs of a pair and check that nothing is left. Returns how many processes were ended.

    Harmless when nothing runs. Blocks up to 20 seconds. The files stay.

    Raises:
        LabError: there is no such lab, or a process could not be ended.
    """
    state = read_state(name, data)
    reporter.step(f"Ending the pair {name}")
    if any(alive(own) for own in state.processes):
        # vLLM 0.32 kills its engine core at once, and the collector writes twenty times a second.
        time.sleep(SETTLE_SECONDS)
    return end(state.processes, state.directory)


def status(name: str, data: Path) -> PairStatus | None:
    """What runs of the lab `name`; None when there is none. Raises `LabError` when its state cannot be read."""
    state = find_state(lab_directory(name, data))
    if state is None:
        return None
    return PairStatus(state=state, alive={own.role: alive(own) for own in state.processes})


def _check(settings: PairSettings) -> None:
    if not _NAME.fullmatch(settings.name):
        raise LabError(
            f"{settings.name!r} is no name for a lab: use small letters, digits and dashes, at most 40."
        )
    if settings.executor not in EXECUTORS:
        raise LabError(f"There is no executor {settings.executor!r}. Choose one of: {', '.join(EXECUTORS)}.")
    if settings.lease_seconds is not None and settings.lease_seconds < 1:
        raise LabError(f"A lease of {settings.lease_seconds} s is none.")
    connector_named(settings.connector)
    settings.prefill.check()
    settings.decode.check()
    fault_named(settings.fault)
    model_named(settings.model)
    environment.engine_home(settings.vllm, settings.cache)
    _check_machine(settings)


def _check_machine(settings: PairSettings) -> None:
    needed = settings.memory_needed_bytes
    require_memory(model_named(settings.model).memory_needed_bytes if needed is None else needed)
    if settings.ports is not None:
        require_free(settings.ports)


def _require_down(name: str, directory: Path) -> None:
    state = find_state(directory)
    if state is not None and any(alive(own) for own in state.processes):
        raise LabError(f"The lab {name} is already up. End it with: falseok lab down --name {name}")


def _set_aside(directory: Path) -> None:
    """Move what an earlier start of this name left, so that two runs never mix in one spool."""
    left = [path for path in directory.iterdir() if path.name != EARLIER]
    if not left:
        return
    target = directory / EARLIER / f"until-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    target.mkdir(parents=True)
    for path in left:
        shutil.move(path, target / path.name)


def _new_state(
    settings: PairSettings, directory: Path, engine: Engine, model_folder: Path, fingerprint: str
) -> PairState:
    return PairState(
        name=settings.name,
        folder=str(directory),
        vllm=engine.version,
        model=settings.model,
        model_folder=str(model_folder.resolve()),
        engine_folder=str(engine.home.resolve()),
        fault=settings.fault,
        executor=settings.executor,
        connector=settings.connector,
        lease_seconds=settings.lease_seconds,
        router_collector=settings.router_collector,
        prefill=settings.prefill,
        decode=settings.decode,
        collector=settings.collector,
        collector_fingerprint=fingerprint,
        versions=engine.versions,
        environment=dict(settings.environment),
        salt=secrets.token_hex(16),
        ports=settings.ports or _ports(settings, directory),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _ports(settings: PairSettings, directory: Path) -> Ports:
    ranks = max(settings.prefill.data_parallel_size, settings.decode.data_parallel_size)
    states = [find_state(path.parent) for path in directory.parent.glob(f"*/{STATE_FILE}")]
    taken = {port for state in states if state is not None for port in msgspec.structs.astuple(state.ports)}
    return free_ports(str(directory), taken, ranks)


def _start(state: PairState, engine: Engine, settings: PairSettings, reporter: Reporter) -> PairState:
    model, fault = model_named(state.model), fault_named(state.fault)
    reporter.step(
        f"Starting the pair {state.name}: vLLM {state.vllm}, model {state.model}, "
        f"connector {state.connector}, fault {state.fault}"
    )
    launches = [
        engine_launch("prefill", state, model, fault, engine.python),
        engine_launch("decode", state, model, fault, engine.python),
        router_launch(state),
    ]
    state.spool.mkdir(exist_ok=True)
    started: list[OwnProcess] = []
    with interruptible_by_sigterm():
        try:
            for one in launches:
                own = start(
                    one.role,
                    one.command,
                    environment=one.environment,
                    directory=state.directory,
                    log=one.log,
                )
                started.append(own)
                state = msgspec.structs.replace(state, processes=list(started))
                write_state(state)
            urls = {"prefill": state.prefill_url, "decode": state.decode_url, "router": state.router_url}
            wait_until_healthy(started, urls, reporter, timeout_seconds=settings.start_timeout_seconds)
        except BaseException:
            reporter.step(f"Ending what was started of {state.name}")
            with undisturbed():
                end(started, state.directory, leaders_seconds=UNFINISHED_START_SECONDS)
            raise
    return state
