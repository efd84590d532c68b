"""`falseok status`: what is seen, what is missing, what was lost."""

from pathlib import Path

import msgspec
import pytest
from tests.cli.command_line import answer, falseok, words
from tests.pipeline.stories import Fleet, corrupt

from falseok_collector.attributes import CollectorHeartbeat, SinkState
from falseok_collector.events import Envelope, Origin, encode
from falseok_pipeline import replay


def test_status_of_a_recording(broken: Path) -> None:
    """Two engines with their versions, collectors with hooks, counts by verdict, nothing behind, no run."""
    report = answer("status", "--data", broken)
    assert {"kv_producer", "kv_consumer"} == {engine["kv_role"] for engine in report["engines"]}
    assert {"0.27.0"} == {engine["vllm_version"] for engine in report["engines"]}
    assert all(collector["hooks_active"] for collector in report["collectors"])
    assert {"verdict": "corrupt", "requests": 32} in report["requests"]
    assert [0] == [spool["bytes_behind"] for spool in report["spools"]]
    assert report["run"] is None


def test_status_view_has_every_part(broken: Path) -> None:
    """A person sees the same parts, in a fixed order."""
    text = falseok("status", "--data", broken).stdout
    parts = ("DATA", "RUN", "SPOOLS", "ENGINES", "COLLECTORS", "REQUESTS", "PROBLEMS")
    places = [text.index(f"\n{part}" if part != "DATA" else part) for part in parts]
    assert places == sorted(places)
    assert "not up" in text


def test_losses_and_gaps_are_told_as_problems(tmp_path: Path) -> None:
    """A dead letter, a gap in the numbers and a missing configuration are each said in a sentence."""
    pair = Fleet()
    lines = corrupt(pair, 1)
    gap = [line for line in lines if b'"sched.wait_remote"' not in line]
    replay.write_spool(tmp_path / "spool", [*gap, b'{"v":1,"not":"an event"}'])
    assert 0 == falseok("run", "--once", "--data", tmp_path).exit_code
    problems = answer("status", "--data", tmp_path)["problems"]
    text = words(falseok("status", "--data", tmp_path).stdout)
    for start in ("1 dead letters", "Collector", f"Engine {pair.decode.engine_id}: no engine.config event"):
        assert any(problem.startswith(start) for problem in problems), start
        assert start in text
    assert any("1 events numbered but never arrived" in problem for problem in problems)


def heartbeat(*sinks: SinkState, captures_text: bool = False) -> bytes:
    """What a collector says about its sinks."""
    envelope = Envelope(
        v=1,
        id="b0-1",
        ts=1_700_000_000_000_000,
        mono=1,
        boot="b0",
        seq=1,
        name="collector.heartbeat",
        origin=Origin.HOOK,
        engine_id="engine-1",
        pid=7,
    )
    return encode(
        envelope, CollectorHeartbeat(process="engine_core", sinks=list(sinks), captures_text=captures_text)
    )


def test_sinks_are_shown_and_their_troubles_told(tmp_path: Path) -> None:
    """In the collector's row its sinks with what they sent; as problems those that need somebody."""
    sinks = (
        SinkState(name="spool", state="ok", events_sent=1_234),
        SinkState(
            name="kafka",
            state="spooling",
            events_sent=5,
            events_waiting=9_000,
            events_lost=12,
            errors=3,
            last_error="ConnectionRefusedError",
        ),
        SinkState(name="otlp", state="unavailable", last_error="ModuleNotFoundError"),
    )
    replay.write_spool(tmp_path / "spool", [heartbeat(*sinks)])
    assert 0 == falseok("run", "--once", "--data", tmp_path).exit_code
    report = answer("status", "--data", tmp_path)
    (collector,) = report["collectors"]
    assert [msgspec.to_builtins(sink) for sink in sinks] == [
        {name: value for name, value in sink.items() if value} for sink in collector["sinks"]
    ]
    who = "Collector engine_core of engine-1 (pid 7): "
    assert [
        f"{who}the kafka sink lost 12 events and keeps 9,000 events that nobody takes (ConnectionRefusedError).",
        f"{who}the otlp sink's library is not installed; the spool takes its events.",
    ] == [problem for problem in report["problems"] if "sink" in problem]
    text = words(falseok("status", "--data", tmp_path).stdout)
    for shown in ("spool ok (1,234 sent)", "kafka spooling (5 sent, 9,000 waiting, 12 lost)"):
        assert shown in text


@pytest.mark.parametrize("captures", [True, False])
def test_a_process_that_captures_text_is_shown(tmp_path: Path, captures: bool) -> None:
    """Whoever reads the events of that process reads what users were answered."""
    replay.write_spool(tmp_path / "spool", [heartbeat(captures_text=captures)])
    assert 0 == falseok("run", "--once", "--data", tmp_path).exit_code
    (collector,) = answer("status", "--data", tmp_path)["collectors"]
    assert collector["captures_text"] is captures
    shown = "captures the text of answers" in words(falseok("status", "--data", tmp_path).stdout)
    assert captures == shown


def test_waiting_events_without_a_run_are_a_problem(tmp_path: Path) -> None:
    """Events in the spool that nobody stores are told, with their bytes; without a store the exit status is 2."""
    replay.write_spool(tmp_path / "spool", corrupt(Fleet(), 1))
    result = falseok("status", "--data", tmp_path)
    assert 2 == result.exit_code
    assert "Events wait in the spool and nobody stores them" in words(result.stdout)
    assert "There is no store yet" in words(result.stdout)
    assert not (tmp_path / "store").exists()


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """An engine id with an escape sequence does not reach the terminal."""
    pair = Fleet()
    pair.decode.engine_id = pair.decode.core.engine_id = "evil\x1b[2J[red]"
    replay.write_spool(tmp_path / "spool", [*pair.configs(), *corrupt(pair, 1)])
    assert 0 == falseok("run", "--once", "--data", tmp_path).exit_code
    text = falseok("status", "--data", tmp_path).stdout
    assert "\x1b" not in text
    assert "evil[2J[red]" in text
