"""`falseok demo` on the shipped recording of real engines."""

import threading
from pathlib import Path

import msgspec
import pytest
from tests.cli.command_line import answer, falseok, words

from falseok_pipeline.data_directory import DataDirectory


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Data directory, stdout and stderr of one demo."""
    data = tmp_path_factory.mktemp("demo") / "data"
    result = falseok("demo", "--data", data)
    assert 0 == result.exit_code, result.stderr
    return data, result.stdout, result.stderr


def test_demo_shows_the_incident_of_the_recording(shown: tuple[Path, str, str]) -> None:
    """One incident, 32 requests, proven; dtype with both values first, then that this vLLM fails open."""
    text = words(shown[1])
    assert 1 == text.count("CORRUPT, PROVEN")
    assert "32 requests answered 200 with corrupted output" in text
    first, second = (
        text.index("dtype prefill torch.bfloat16 decode torch.float32"),
        text.index("this vLLM fails open"),
    )
    assert first < second
    for part in ("WHO", "WHY", "EVIDENCE", "DO", "NEXT", "1. set the same --dtype on both engines safe"):
        assert part in text
    assert "✗ enforce_handshake_compat=false would NOT help here" in text


def test_demo_ends_with_the_path_of_the_data_and_the_way_to_see_it_live(shown: tuple[Path, str, str]) -> None:
    """The reader knows where to look around and how to make the same happen before his eyes."""
    ending = shown[1].splitlines()[-6:]
    assert f"The data is in {shown[0]}. Look around in it:" in ending
    assert any("make lab" in line for line in ending)


def test_progress_goes_to_stderr(shown: tuple[Path, str, str]) -> None:
    """Where the recording comes from and what is being done is not part of the result."""
    assert "Recorded on real engines: vLLM 0.27.0" in shown[2]
    assert "32 times HTTP 200" in shown[2]
    assert "Recorded on" not in shown[1]


def test_incidents_of_the_demo_have_the_promised_json(shown: tuple[Path, str, str]) -> None:
    """`triage incidents --json` on the demo's data is what the issue promises to scripts."""
    [incident] = answer("triage", "incidents", "--data", shown[0])
    assert ("corrupt", "proven", 32) == (incident["verdict"], incident["evidence"], incident["affected"])
    assert {"id", "prefill_engine", "decode_engine", "first_seen", "last_seen"} <= set(incident)
    cause = incident["causes"][0]
    assert ("hash-factor-dtype", 1) == (cause["id"], cause["rank"])
    assert "torch.bfloat16" in cause["explanation"]
    assert "torch.float32" in cause["explanation"]
    assert [1, 2] == [remedy["order"] for remedy in cause["remedies"]]
    assert all({"order", "setting", "side", "risk", "verify"} == set(remedy) for remedy in cause["remedies"])


def test_demo_may_run_again_and_starts_anew(tmp_path: Path) -> None:
    """The second run empties what the first one made and shows the same incident, not twice the requests."""
    first = answer("demo", "--data", tmp_path / "demo")
    second = answer("demo", "--data", tmp_path / "demo")
    assert first == second
    assert 32 == second[0]["affected"]


def test_demo_goes_beside_where_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --data the data is in .demo here, and the shown commands say so."""
    monkeypatch.chdir(tmp_path)
    result = falseok("demo")
    assert (tmp_path / ".demo" / "store").is_dir()
    assert "falseok triage incidents --data .demo" in result.stdout


def test_demo_leaves_a_directory_alone_that_it_did_not_make(tmp_path: Path) -> None:
    """Somebody's files are never deleted: exit 2, and what to do instead."""
    (tmp_path / "thesis.tex").write_text("years of work")
    result = falseok("demo", "--data", tmp_path)
    assert (2, "") == (result.exit_code, result.stdout)
    assert "is not empty and was not made by the demo" in result.stderr
    assert ["thesis.tex"] == [path.name for path in tmp_path.iterdir()]


def test_demo_refuses_a_directory_that_is_in_use(shown: tuple[Path, str, str]) -> None:
    """A run that holds the directory keeps its files."""
    directory = DataDirectory(shown[0])
    refused: list[str] = []

    def try_demo() -> None:
        refused.append(falseok("demo", "--data", shown[0]).stderr)

    with directory.claim("run", 1):
        thread = threading.Thread(target=try_demo)
        thread.start()
        thread.join()
    assert "is in use by process" in words(refused[0])
    assert directory.store.is_dir()


def test_json_of_the_demo_is_the_list_of_incidents(tmp_path: Path) -> None:
    """One document on stdout, whatever is told on stderr."""
    result = falseok("demo", "--data", tmp_path / "demo", "--json")
    assert 1 == len(msgspec.json.decode(result.stdout))
