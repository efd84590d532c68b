"""The life of a pair, with stand-ins for the engines and everything else real: processes, ports, router, files."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.lab.stand_in_cache import REPOSITORY, VERSIONS, Progress

from falseok_lab.drive import DriveSettings, drive
from falseok_lab.errors import LabError, PortTakenError
from falseok_lab.pair import STARTS, PairSettings, down, read_state, status, up
from falseok_lab.ports import free_ports
from falseok_lab.processes import members
from falseok_lab.sides import Side
from falseok_lab.state import STATE_FILE, lab_directory

INTERRUPTED = """
import sys
from pathlib import Path
from falseok_lab.pair import PairSettings, up
class Told:
    def step(self, text): print(text, flush=True)
    def detail(self, text): print(text, flush=True)
data, cache, repository = map(Path, sys.argv[1:])
settings = PairSettings(name="pair", data=data, cache=cache, collector_source=repository, memory_needed_bytes=1,
                        environment={"STAND_IN": "deaf"})
up(settings, Told())
"""


def misbehaving(settings: PairSettings, behaviour: str, **changes: Any) -> PairSettings:
    """The same settings with engines that misbehave."""
    return replace(settings, environment={"STAND_IN": behaviour}, **changes)


def working_in(directory: Path) -> list[int]:
    """Processes whose working directory is a lab's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            inside = process.cwd() == str(directory) and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        if inside:
            found.append(process.pid)
    return found


def alive(settings: PairSettings) -> Mapping[str, bool]:
    """What runs of the pair."""
    seen = status(settings.name, settings.data)
    assert seen is not None
    return seen.alive


def test_a_pair_comes_up_serves_and_goes_down_without_a_trace_of_processes(
    settings: PairSettings, progress: Progress
) -> None:
    """Up, a routed request, down, and down again."""
    state = up(settings, progress)
    directory = lab_directory(settings.name, settings.data)
    assert dict.fromkeys(("prefill", "decode", "router"), True) == alive(settings)
    assert state == read_state(settings.name, settings.data)
    assert (VERSIONS, "none", 32) == (state.versions, state.fault, len(state.salt))
    assert [200] == [answer.status for answer in drive(state, DriveSettings(requests=1))]
    assert 0o600 == (directory / STATE_FILE).stat().st_mode & 0o777
    assert 3 == len(working_in(directory))
    assert 3 == down(settings.name, settings.data, progress)
    assert [] == working_in(directory)
    assert dict.fromkeys(("prefill", "decode", "router"), False) == alive(settings)
    assert 0 == down(settings.name, settings.data, progress)


def test_processes_that_outlive_a_killed_engine_are_ended_too(
    settings: PairSettings, progress: Progress
) -> None:
    """`kill -9` of the leaders leaves their children to be found."""
    state = up(misbehaving(settings, "stray"), progress)
    directory = lab_directory(settings.name, settings.data)
    leaders = [own.pid for own in state.processes if own.role != "router"]
    for pid in leaders:
        os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid) for pid in leaders])
    assert 3 == len(working_in(directory))
    assert 3 == down(settings.name, settings.data, progress)
    assert [] == working_in(directory)


def test_a_second_pair_of_the_same_name_is_refused_and_one_of_another_name_is_not(
    settings: PairSettings, progress: Progress
) -> None:
    """Two labs share nothing but the cache: other ports, other salts, other spools."""
    first = up(settings, progress)
    with pytest.raises(LabError, match="already up"):
        up(settings, progress)
    other = replace(settings, name="other")
    second = up(other, progress)
    try:
        ports = [set(msgspec.structs.astuple(state.ports)) for state in (first, second)]
        assert set() == ports[0] & ports[1]
        assert first.salt != second.salt
        assert first.spool != second.spool
        assert all(alive(settings).values())
    finally:
        down("other", settings.data, progress)
    assert all(alive(settings).values())


def test_an_engine_that_dies_is_reported_with_its_log_and_the_rest_is_ended(
    settings: PairSettings, progress: Progress
) -> None:
    """No waiting for the end of the time, and nothing left running."""
    with pytest.raises(LabError, match=r"process ended while starting(.|\n)*RuntimeError: no such weights"):
        up(misbehaving(settings, "die"), progress)
    assert dict.fromkeys(("prefill", "decode", "router"), False) == alive(settings)
    assert [] == working_in(lab_directory(settings.name, settings.data))


def test_a_pair_whose_engine_lost_a_port_is_started_again(
    settings: PairSettings, progress: Progress, tmp_path: Path
) -> None:
    """The engine chooses its inner ports itself: nothing is wrong with the pair, and nobody has to look."""
    state = up(misbehaving(settings, f"port {tmp_path / 'once'}"), progress)
    try:
        assert dict.fromkeys(("prefill", "decode", "router"), True) == alive(settings)
        assert [] != list((state.directory / "earlier").iterdir())
    finally:
        down(settings.name, settings.data, progress)
    assert [] == working_in(state.directory)


def test_a_pair_that_loses_ports_again_and_again_is_given_up(
    settings: PairSettings, progress: Progress
) -> None:
    """Then something is wrong on this machine, and the log says what."""
    with pytest.raises(PortTakenError, match="EADDRINUSE"):
        up(misbehaving(settings, "port"), progress)
    assert STARTS == 1 + progress.steps.count("An engine found a port of its own taken: once more")
    assert dict.fromkeys(("prefill", "decode", "router"), False) == alive(settings)


def test_engines_that_never_answer_are_given_up(settings: PairSettings, progress: Progress) -> None:
    """After the time that was set, with where the logs lie."""
    with pytest.raises(LabError, match="Not ready after"):
        up(misbehaving(settings, "deaf", start_timeout_seconds=0.5), progress)
    assert [] == working_in(lab_directory(settings.name, settings.data))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_start_leaves_nothing_running(settings: PairSettings, number: signal.Signals) -> None:
    """A process of its own is interrupted while it waits for its engines."""
    arguments = [str(settings.data), str(settings.cache), str(REPOSITORY)]
    command = [sys.executable, "-c", INTERRUPTED, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as starting:
        assert starting.stdout is not None
        for line in starting.stdout:
            if " s  prefill" in line:
                break
        starting.send_signal(number)
        told = starting.stdout.read()
        status_code = starting.wait()
    assert 0 != status_code
    assert "Ending what was started of pair" in told
    assert 3 == len(read_state("pair", settings.data).processes)
    assert [] == working_in(lab_directory(settings.name, settings.data))


def test_what_an_earlier_start_left_is_set_aside(settings: PairSettings, progress: Progress) -> None:
    """Two starts of one name never mix their events."""
    first = up(settings, progress)
    (first.spool / "b-00000001.ndjson").write_text("old\n")
    down(settings.name, settings.data, progress)
    second = up(settings, progress)
    assert [] == list(second.spool.iterdir())
    [kept] = (second.directory / "earlier").iterdir()
    assert "old\n" == (kept / "spool" / "b-00000001.ndjson").read_text()
    assert (kept / STATE_FILE).exists()
    assert first.ports == second.ports


def test_a_taken_port_stops_the_start_before_anything_is_built(
    settings: PairSettings, progress: Progress
) -> None:
    """The message names port and use; nothing was started."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ports = msgspec.structs.replace(free_ports("pair"), router=port)
        with pytest.raises(LabError, match=rf"Port {port} \(for the router\)"):
            up(replace(settings, ports=ports), progress)
    assert status(settings.name, settings.data) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"name": "Bad Name"}, "is no name for a lab", id="a name with a space"),
        pytest.param({"name": "../x"}, "is no name for a lab", id="a name that is a path"),
        pytest.param({"fault": "gremlins"}, "no fault 'gremlins'", id="an unknown fault"),
        pytest.param({"model": "huge"}, "no model 'huge'", id="an unknown model"),
        pytest.param({"vllm": "newest"}, "not a vLLM version", id="no version"),
        pytest.param({"executor": "ray"}, "no executor 'ray'", id="an unknown executor"),
        pytest.param({"connector": "pigeon"}, "no connector 'pigeon'", id="an unknown connector"),
        pytest.param({"lease_seconds": 0}, "A lease of 0 s is none", id="no lease"),
        pytest.param({"decode": Side(kv_cache_blocks=0)}, "0 blocks is none", id="no cache on decode"),
        pytest.param({"prefill": Side(data_parallel_size=9)}, "choose 1 to 8", id="too many on prefill"),
        pytest.param({"memory_needed_bytes": 1 << 60}, "GiB of memory", id="too little memory"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_done(
    settings: PairSettings, progress: Progress, changes: dict[str, Any], message: str
) -> None:
    """Each with a message that says what is wrong."""
    with pytest.raises(LabError, match=message):
        up(replace(settings, **changes), progress)
    assert not settings.data.exists()
    assert [] == progress.steps


def test_a_lab_that_never_was_is_named(settings: PairSettings, progress: Progress) -> None:
    """Status has none; ending it is an error that says how to start one."""
    assert status("ghost", settings.data) is None
    with pytest.raises(LabError, match="no lab named ghost"):
        down("ghost", settings.data, progress)


def test_a_state_that_cannot_be_read_is_named(settings: PairSettings, progress: Progress) -> None:
    """Nothing is signalled on the word of a damaged file."""
    directory = lab_directory("pair", settings.data)
    directory.mkdir(parents=True)
    (directory / STATE_FILE).write_text('{"name": "pair"')
    with pytest.raises(LabError, match=r"state\.json cannot be read"):
        status("pair", settings.data)
    (directory / STATE_FILE).unlink()


def test_a_state_file_of_processes_long_gone_ends_nothing(settings: PairSettings, progress: Progress) -> None:
    """After a reboot the pids belong to others: here to this very test."""
    state = up(settings, progress)
    down(settings.name, settings.data, progress)
    file = state.directory / STATE_FILE
    # Long gone: younger than this very process they would be taken for it, and it would be ended.
    then = psutil.Process().create_time() - 3600
    ours = [msgspec.structs.replace(own, pid=os.getpid(), created_seconds=then) for own in state.processes]
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(state, processes=ours)))
    assert [] == [one for own in ours for one in members(own, state.directory)]
    assert 0 == down(settings.name, settings.data, progress)
