"""From a lab's folder to a recording and back."""

import json
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from falseok_lab.answers import Answer, append
from falseok_lab.errors import LabError
from falseok_lab.ports import free_ports
from falseok_lab.processes import OwnProcess
from falseok_lab.record import record
from falseok_lab.recording import EVENTS, MANIFEST, RequestTruth, list_shipped, load, shipped
from falseok_lab.state import PairState, write_state

SALT = "0123456789abcdef"


def event(seq: int, name: str = "kv.offer", boot: str = "b1", **more: Any) -> dict[str, Any]:
    """One event; later numbers are later events."""
    identity = {"v": 1, "id": f"{boot}-{seq}", "ts": 1000 + seq, "mono": seq, "boot": boot, "seq": seq}
    return identity | {"name": name, "origin": "hook", "host": socket.gethostname()} | more


@pytest.fixture
def lab(tmp_path: Path) -> PairState:
    """A lab with two segments of events and four answers, as two engines and a client leave it."""
    folder = tmp_path / "data" / "lab" / "pair"
    (folder / "spool").mkdir(parents=True)
    command = ["/cache/engine/bin/python", "--model", str(tmp_path / "models" / "tiny")]
    decode = OwnProcess(
        role="decode", pid=1, created_seconds=1.0, command=command, log=str(folder / "decode.log")
    )
    state = PairState(
        name="pair",
        folder=str(folder),
        vllm="0.27.0",
        model="tiny",
        model_folder=str(tmp_path / "models" / "tiny"),
        engine_folder="/cache/engine",
        fault="dtype-mismatch",
        executor="uni",
        collector=True,
        collector_fingerprint="f" * 64,
        versions={"vllm": "0.27.0"},
        environment={},
        salt=SALT,
        ports=free_ports("pair"),
        started_at="2026-01-01T00:00:00+00:00",
        processes=[decode],
    )
    write_state(state)
    write_segment(state, "b1-00000001", [event(0), event(2, name="api.response")])
    config = {"model": state.model_folder, "side_channel": f"{socket.gethostname()}:5600"}
    write_segment(state, "b2-00000001", [event(1, name="engine.config", boot="b2", attrs=config)])
    for index, status in enumerate((200, 500)):
        answer = Answer(
            external_id=f"pair-r1-000{index}",
            run="r1",
            index=index,
            direct=False,
            endpoint="chat",
            stream=False,
            status=status,
            content="secret answer" if status == 200 else "",
            error="" if status == 200 else f"at {state.folder}/x",
        )
        append(state.client_log, answer)
    direct = Answer(
        external_id="pair-r1-direct-0000",
        run="r1",
        index=0,
        direct=True,
        endpoint="chat",
        stream=False,
        status=200,
        content="another answer",
    )
    append(state.client_log, direct)
    return state


def write_segment(state: PairState, name: str, events: list[dict[str, Any]], torn: bytes = b"") -> None:
    """Write a segment as a collector does; `torn` is what a killed one leaves at its end."""
    content = b"".join(msgspec.json.encode(one) + b"\n" for one in events) + torn
    (state.spool / f"{name}.ndjson").write_bytes(content)


def test_a_recording_holds_the_events_in_the_order_of_time_without_the_machine(
    lab: PairState, tmp_path: Path
) -> None:
    """Paths and host name are placeholders in events and command lines, and the manifest says so."""
    record(lab.directory, tmp_path / "out")
    recording = load(tmp_path / "out")
    events = [json.loads(line) for line in recording.lines()]
    assert ["b1-0", "b2-1", "b1-2"] == [one["id"] for one in events]
    assert {"lab-host"} == {one["host"] for one in events}
    assert {"model": "/models/tiny", "side_channel": "lab-host:5600"} == events[1]["attrs"]
    manifest = recording.manifest
    assert {"decode": ["/engine/bin/python", "--model", "/models/tiny"]} == manifest.commands
    assert "/lab/spool" == manifest.environment["decode"]["FALSEOK_SPOOL_DIR"]
    assert any("replaced" in note for note in manifest.notes)
    text = (tmp_path / "out" / MANIFEST).read_text()
    assert str(tmp_path) not in text
    assert SALT not in text


def test_the_manifest_counts_and_carries_the_ground_truth_without_text(
    lab: PairState, tmp_path: Path
) -> None:
    """Per request what the client saw, lengths instead of text, and agreement where decode was asked alone."""
    manifest = record(lab.directory, tmp_path / "out")
    assert ("out", 3, 2, 0) == (
        manifest.name,
        manifest.events,
        manifest.requests,
        manifest.torn_lines_dropped,
    )
    assert {"api.response": 1, "engine.config": 1, "kv.offer": 1} == manifest.events_by_name
    truth = RequestTruth(
        external_id="pair-r1-0000",
        endpoint="chat",
        stream=False,
        status=200,
        error="",
        finish_reason="",
        content_characters=13,
        reasoning_characters=0,
        completion_tokens=0,
        agrees=False,
    )
    assert truth == manifest.ground_truth[0]
    assert (500, "at /lab/x", None) == (
        manifest.ground_truth[1].status,
        manifest.ground_truth[1].error,
        manifest.ground_truth[1].agrees,
    )
    assert "secret" not in (tmp_path / "out" / MANIFEST).read_text()
    assert manifest == load(tmp_path / "out").manifest


def test_a_torn_last_line_is_dropped_and_counted(lab: PairState, tmp_path: Path) -> None:
    """An engine that was killed while it wrote loses that line, and the manifest says so."""
    write_segment(lab, "b3-00000001", [event(3, boot="b3")], torn=b'{"v":1,"id":"b3')
    manifest = record(lab.directory, tmp_path / "out")
    assert (4, 1) == (manifest.events, manifest.torn_lines_dropped)


def test_a_finished_line_that_is_no_event_stops_the_recording(lab: PairState, tmp_path: Path) -> None:
    """The message names segment and line, and nothing is written."""
    write_segment(lab, "b3-00000001", [event(3, boot="b3"), {"v": 1}])
    with pytest.raises(LabError, match=r"b3-00000001\.ndjson, line 2 is not an event"):
        record(lab.directory, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_changed_events_are_refused_with_both_checksums(lab: PairState, tmp_path: Path) -> None:
    """One other byte is enough."""
    manifest = record(lab.directory, tmp_path / "out")
    events = tmp_path / "out" / EVENTS
    content = bytearray(events.read_bytes())
    content[-1] ^= 1
    events.write_bytes(content)
    with pytest.raises(LabError, match=f"is damaged.*{manifest.payload_sha256}"):
        load(tmp_path / "out")


def test_what_is_no_recording_is_named(lab: PairState, tmp_path: Path) -> None:
    """No manifest, a broken manifest, no events: three messages."""
    with pytest.raises(LabError, match="is not a recording"):
        load(tmp_path / "nothing")
    record(lab.directory, tmp_path / "out")
    (tmp_path / "out" / EVENTS).unlink()
    with pytest.raises(LabError, match="events of the recording"):
        load(tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_text("{}")
    with pytest.raises(LabError, match="not a manifest"):
        load(tmp_path / "out")


def test_nothing_is_overwritten_and_nothing_empty_is_recorded(lab: PairState, tmp_path: Path) -> None:
    """A folder that holds something, a folder that is no lab, and a spool without events are refused."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(LabError, match="is not empty"):
        record(lab.directory, tmp_path / "full")
    with pytest.raises(LabError, match="not the folder of a lab"):
        record(tmp_path / "full", tmp_path / "out")
    for segment in lab.spool.iterdir():
        segment.unlink()
    with pytest.raises(LabError, match="no events"):
        record(lab.directory, tmp_path / "out")


def test_every_shipped_recording_is_whole() -> None:
    """Each matches its own manifest, line by line; one that is not there is named with those that are."""
    for path in list_shipped():
        recording = load(shipped(path.name))
        assert recording.manifest.events == sum(1 for _ in recording.lines())
        assert path.name == recording.manifest.name
    with pytest.raises(LabError, match="no shipped recording 'missing'"):
        shipped("missing")
