"""The lab's commands where no engine is needed: choosing, refusing, showing. Live pairs are in `tests/e2e`."""

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from tests.cli.command_line import answer, falseok, words

from falseok.errors import CliError
from falseok.lab_choice import chosen_lab, lab_names
from falseok.lab_progress import LabProgress
from falseok.render_answers import answer_line, answers_summary
from falseok.render_lab import lab_document, lab_line
from falseok_lab.answers import Answer
from falseok_lab.pair import PairStatus, Ports
from falseok_lab.state import PairState, write_state
from falseok_pipeline.data_directory import DataDirectory


def state(data: Path, name: str) -> PairState:
    """A lab that was started and has ended."""
    directory = data / "lab" / name
    directory.mkdir(parents=True)
    made = PairState(
        name=name,
        folder=str(directory),
        vllm="0.27.0",
        model="tiny",
        model_folder="m",
        engine_folder="e",
        fault="none",
        executor="uni",
        collector=True,
        collector_fingerprint="f",
        versions={"vllm": "0.27.0"},
        environment={},
        salt="the-secret-salt",
        ports=Ports(
            router=8000, prefill=8001, decode=8002, prefill_side_channel=5600, decode_side_channel=5700
        ),
        started_at="2026-11-30T00:00:00+00:00",
    )
    write_state(made)
    return made


def an_answer(**values: object) -> Answer:
    """A sound answer, changed as wanted."""
    fields = {
        "external_id": "r-1",
        "run": "r",
        "index": 1,
        "direct": False,
        "endpoint": "chat",
        "stream": False,
    }
    return msgspec.convert(
        {**fields, "status": 200, "content": "hello", "finish_reason": "stop", **values}, Answer
    )


def test_the_only_lab_needs_no_name(tmp_path: Path) -> None:
    """With several, the name is asked for; with none, how to start one; the engine cache is no lab."""
    data = DataDirectory(tmp_path)
    with pytest.raises(CliError, match="There is no lab in"):
        chosen_lab(data, None)
    state(tmp_path, "one")
    (tmp_path / "lab" / ".engines").mkdir()
    assert "one" == chosen_lab(data, None)
    state(tmp_path, "two")
    assert ["one", "two"] == lab_names(data)
    with pytest.raises(CliError, match="There are several labs: one, two"):
        chosen_lab(data, None)
    with pytest.raises(CliError, match="no lab named three"):
        chosen_lab(data, "three")
    assert "two" == chosen_lab(data, "two")


@pytest.mark.parametrize(
    "command", [["drive"], ["down"], ["record", "somewhere"]], ids=lambda command: command[0]
)
def test_command_without_a_lab_exits_2_and_says_how_to_start_one(tmp_path: Path, command: list[str]) -> None:
    """No traceback, nothing on stdout."""
    result = falseok("lab", *command, "--data", tmp_path)
    assert (2, "") == (result.exit_code, result.stdout)
    assert "falseok lab up" in result.stderr


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--fault", "gravity", "There is no fault 'gravity'. Choose one of: none, dtype-mismatch"),
        ("--model", "gpt-9", "There is no model 'gpt-9'"),
        ("--name", "../up", "is no name for a lab"),
        ("--vllm", "newest", "newest"),
    ],
)
def test_wrong_setting_of_up_exits_2_before_anything_is_built(
    tmp_path: Path, option: str, value: str, message: str
) -> None:
    """What can be known to be wrong is said at once."""
    result = falseok("lab", "up", option, value, "--data", tmp_path)
    assert (2, "") == (result.exit_code, result.stdout)
    assert message in words(result.stderr)
    assert not (tmp_path / "lab" / ".engines").exists()


def test_status_lists_labs_without_their_secret(tmp_path: Path) -> None:
    """A script gets addresses and what lives; the fleet's salt is shown to nobody."""
    assert [] == answer("lab", "status", "--data", tmp_path)
    assert "no lab in" in falseok("lab", "status", "--data", tmp_path).stdout
    made = state(tmp_path, "one")
    [listed] = answer("lab", "status", "--data", tmp_path)
    assert ("one", made.router_url, {}) == (listed["name"], listed["router_url"], listed["alive"])
    assert "secret" not in msgspec.json.encode(lab_document(made)).decode()
    assert "secret" not in lab_line(PairStatus(state=made, alive={"prefill": False})).plain
    assert "one  vLLM 0.27.0" in words(falseok("lab", "status", "--data", tmp_path).stdout).replace(
        "one v", "one  v"
    )


def test_down_twice_is_no_error(tmp_path: Path) -> None:
    """A lab whose processes are gone is ended already."""
    state(tmp_path, "one")
    assert {"name": "one", "processes_ended": 0} == answer("lab", "down", "--data", tmp_path)
    assert 0 == falseok("lab", "down", "--data", tmp_path).exit_code


def test_answers_are_shown_as_the_client_got_them() -> None:
    """Garbage is garbage, but it does not steer the terminal; an error inside a 200 is not counted as a 200."""
    garbage = an_answer(content="\x1b[2J,,\n\n[red]")
    assert answer_line(garbage).plain.endswith("[2J,,  [red]")
    failed = an_answer(status=200, error="boom", content="")
    refused = an_answer(status=500, error="no", content="")
    assert answer_line(refused).plain.endswith("no")
    assert "the client saw 3 answers: 1 times 200, 1 times 200 then an error, 1 times 500" == answers_summary(
        [garbage, failed, refused]
    )


def test_progress_in_a_log_file_is_sparse() -> None:
    """Every step is a line; details come at most every ten seconds."""
    stream = io.StringIO()
    now = [0.0]
    console = Console(file=stream, width=80, markup=False, highlight=False)
    with LabProgress(console, lambda: now[0]) as progress:
        progress.step("building")
        for now[0] in (0.0, 1.0, 9.0, 10.0):
            progress.detail(f"at {now[0]}")
        progress.step("starting")
        progress.detail("soon")
    assert ["building", "  at 0.0", "  at 10.0", "starting", "  soon"] == stream.getvalue().splitlines()
