"""A line reads the same whatever a runtime, kubectl, journald or a terminal put around it."""

from pathlib import Path

import msgspec
import pytest
from tests.pipeline.sources.logs.lines import PREFILL_ID, failure, line
from tests.pipeline.sources.logs.reading import read_files, read_lines

from falseok_pipeline.sources.logs.wrapping import Unwrapped, micros_of, unwrap

STAMP = "2026-11-30T21:35:13.123456789Z"
MICROS = 1_796_074_513_123_456
PLAIN = line("Releasing expired KV blocks for request a-1 which were retrieved by 0 remote worker(s) before")
COLOURED = PLAIN.replace("ERROR", "\x1b[31mERROR\x1b[0m").replace(
    "11-30 21:35:13", "\x1b[90m11-30 21:35:13\x1b[0m"
)
DOCKER = msgspec.json.encode({"log": f"{PLAIN}\n", "stream": "stderr", "time": STAMP}).decode()


@pytest.mark.parametrize(
    ("wrapped", "stamp", "source"),
    [
        (PLAIN, None, ""),
        (f"{PLAIN}\r", None, ""),
        (COLOURED, None, ""),
        (f"{STAMP} {PLAIN}", MICROS, ""),
        (f"[pod/decode-0/vllm] {PLAIN}", None, "pod/decode-0/vllm"),
        (f"[pod/decode-0/vllm] {STAMP} {PLAIN}", MICROS, "pod/decode-0/vllm"),
        (f"{STAMP} stdout F {PLAIN}", MICROS, ""),
        (f"2026-11-30T22:35:13.123456789+01:00 stderr F {PLAIN}", MICROS, ""),
        (DOCKER, MICROS, ""),
        (f"Nov 30 21:35:13 node-1 vllm[4242]: {PLAIN}", None, "node-1/vllm"),
        (f"2026-11-30T21:35:13.123456+00:00 node-1 vllm-decode[4242]: {PLAIN}", MICROS, "node-1/vllm-decode"),
        (f"decode-1  | {PLAIN}", None, "decode-1"),
        (f"decode  | {STAMP} {PLAIN}", MICROS, "decode"),
        (f"decode-1  | {COLOURED}", None, "decode-1"),
    ],
)
def test_every_wrapping_comes_off(wrapped: str, stamp: int | None, source: str) -> None:
    """Text, time and source are what was meant."""
    assert Unwrapped(PLAIN, stamp, source) == unwrap(wrapped)


@pytest.mark.parametrize(
    "text",
    [
        "step | loss | lr",
        "loading 5 | 7",
        "rank0 | 12.3 GiB | ok",
        "NIXL transfer failure: a | Context: {}",
        "a | ",
    ],
)
def test_a_bar_in_a_line_names_no_service(text: str) -> None:
    """Tables and progress bars look like Docker Compose's marks."""
    assert Unwrapped(text) == unwrap(text, set())


def test_a_service_once_seen_keeps_all_its_lines() -> None:
    """The lines of a traceback do not look like log lines."""
    services: set[str] = set()
    unwrap(f"decode  | {PLAIN}", services)
    assert Unwrapped('  File "x.py", line 1', None, "decode") == unwrap(
        'decode  |   File "x.py", line 1', services
    )
    assert {"decode"} == services


def test_a_file_is_not_believed_to_hold_any_number_of_services() -> None:
    """Whoever can write into a log could make us remember for ever."""
    services: set[str] = set()
    sources = {unwrap(f"name-{number} | {PLAIN}", services).source for number in range(500)}
    assert 64 == len(services)
    assert 65 == len(sources)


def test_servers_of_a_log_are_bounded_and_what_is_passed_over_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is lost silently."""
    monkeypatch.setattr("falseok_pipeline.sources.logs.reader.MAX_SERVERS", 3)
    read, _ = read_lines(tmp_path, prefill=[f"[pod/p-{number}/vllm] {PLAIN}" for number in range(5)])
    assert (5, 2) == (read.counts.lines, read.counts.meaningless["too_many_sources"])


@pytest.mark.parametrize(
    ("wrapped", "clock"),
    [
        (f"{STAMP} {PLAIN}", MICROS),
        (f"{STAMP} stdout F {PLAIN}", MICROS),
        (DOCKER, MICROS),
        (PLAIN, MICROS // 1_000_000 * 1_000_000),
    ],
)
def test_the_runtimes_stamp_is_the_time(tmp_path: Path, wrapped: str, clock: int) -> None:
    """It has year, zone and fractions; without it the line's own stamp counts."""
    _, store = read_lines(tmp_path, prefill=[wrapped])
    assert clock == store.events[0]["ts"]


def test_a_line_that_containerd_cut_is_put_together(tmp_path: Path) -> None:
    """Parts are marked P, the last one F; each physical line is counted."""
    text = failure(1)
    parts = [text[:120], text[120:300], text[300:]]
    cut = [f"{STAMP} stderr {'F' if part is parts[-1] else 'P'} {part}" for part in parts]
    read, store = read_lines(tmp_path, decode=cut)
    assert "chatcmpl-req-1-bbbbbbbb" == store.named("kv.read.end")[0]["request_id"]
    assert (3, 3) == (read.counts.lines, read.counts.understood["transfer_failure"])


def test_a_line_that_docker_cut_is_put_together(tmp_path: Path) -> None:
    """Docker's parts have no line break at their end."""
    text = failure(1)
    pieces = [text[:200], f"{text[200:]}\n"]
    cut = [
        msgspec.json.encode({"log": piece, "stream": "stderr", "time": STAMP}).decode() for piece in pieces
    ]
    read, store = read_lines(tmp_path, decode=cut)
    assert 1 == len(store.named("kv.read.end"))
    assert 2 == read.counts.understood["transfer_failure"]


def test_a_part_without_its_end_is_judged_as_it_is(tmp_path: Path) -> None:
    """The file ends in the middle: what cannot be read of it is a dead letter, not nothing."""
    read, store = read_lines(tmp_path, decode=[f"{STAMP} stderr P {failure(1)[:200]}"])
    assert (1, 1) == (read.counts.lines, read.counts.dead_letters)
    assert "line 1" in store.letters[0].message


def test_pods_in_one_file_are_servers_of_their_own(tmp_path: Path) -> None:
    """`kubectl logs --prefix` of two pods: each tells its own engine id."""
    lines = [
        f"[pod/{pod}/vllm] {text}"
        for pod, engine in (("p-0", PREFILL_ID), ("p-1", "other-engine"))
        for text in (line(f"Initializing NIXL worker {engine}"), PLAIN)
    ]
    _, store = read_lines(tmp_path, prefill=[lines[0], lines[2], lines[1], lines[3]])
    assert {PREFILL_ID, "other-engine"} == {event["engine_id"] for event in store.named("kv.lease_end")}


def test_json_records_of_vllm(tmp_path: Path) -> None:
    """`VLLM_LOGGING` as JSON (0.32 and later): message, process and traceback are fields."""
    message = failure(1).partition("] ")[2]
    record = {
        "asctime": "2026-11-30 21:35:13,250",
        "levelname": "ERROR",
        "name": "vllm.distributed.kv_transfer",
        "processName": "Worker_TP1",
        "process": 77,
        "message": message,
        "exc_info": "Traceback (most recent call last):\n  File\nRuntimeError: gone",
    }
    path = tmp_path / "decode.log"
    path.write_bytes(msgspec.json.encode(record) + b"\n")
    read, store = read_files(decode=[path])
    [event] = store.named("kv.read.end")
    assert (77, 1, "RuntimeError", "gone") == (
        event["pid"],
        event["rank"],
        event["attrs"]["error_class"],
        event["attrs"]["error_message"],
    )
    assert MICROS // 1_000_000 * 1_000_000 == event["ts"]
    assert 1 == read.counts.understood["transfer_failure"]


@pytest.mark.parametrize("text", ["", "2026", "2026-13-40T99:99:99Z", "no time at all"])
def test_what_is_no_time_is_none(text: str) -> None:
    """Never an error."""
    assert micros_of(text) is None
