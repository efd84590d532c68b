"""Every line counts once, nothing is lost, and nothing raises, whatever the file holds."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.sources.logs.cases import case_text
from tests.pipeline.sources.logs.lines import access, failure, handshake_failure, line, start
from tests.pipeline.sources.logs.reading import MemoryStore, read_files, read_lines

from falseok_pipeline.dead_letters import Reason
from falseok_pipeline.sources.logs.files import MAX_LINE_BYTES
from falseok_pipeline.sources.logs.ingest import Read

CASE_LINES = tuple((case_text("decode.log") + case_text("prefill.log")).split("\n"))
SEEDS = (
    *start("decode"),
    failure(1),
    handshake_failure(),
    access(),
    line("Failing 1 request(s) due to KV load failure (x). Request IDs: {'a'}"),
    line("Recovered from KV load failure: 1 request(s) rescheduled (1 tokens affected)."),
    line("Request a failed with an internal error during generation"),
    line("Declining expired remote read for a from engine b."),
    '{"log":"x\\n","stream":"stdout","time":"2026-11-30T21:35:13Z"}',
    "2026-11-30T21:35:13Z stdout P part",
    "2026-11-30T21:35:13Z stdout F end",
)


def adds_up(read: Read, lines: int) -> None:
    """Read = understood + meaningless + dead."""
    counts = read.counts
    assert lines == counts.lines
    assert lines == counts.understood.total() + counts.meaningless.total() + counts.dead_letters


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A line of a real log or of a template with bytes changed, cut out or put in, or any bytes at all."""
    text = draw(st.sampled_from(SEEDS) | st.sampled_from(CASE_LINES)).encode()
    kind = draw(st.sampled_from(["as it is", "cut", "inserted", "any", "twice"]))
    if kind == "cut":
        start_at, end_at = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        text = text[:start_at] + text[end_at:]
    elif kind == "inserted":
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.binary(min_size=1, max_size=6)) + text[place:]
    elif kind == "any":
        text = draw(st.binary(max_size=80))
    elif kind == "twice":
        text += text
    return text.replace(b"\n", b" ")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines=st.lists(mangled(), max_size=40), zipped=st.booleans())
def test_any_lines_are_counted_and_valid(lines: list[bytes], zipped: bool) -> None:
    """Never an exception; every event is one that the service accepts; every dead letter has its place and bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "decode.log"
        content = b"".join(text + b"\n" for text in lines)
        path.write_bytes(gzip.compress(content) if zipped else content)
        read, store = read_files(decode=[path])
        again, same = read_files(decode=[path])
    adds_up(read, len(lines))
    assert store.events == same.events
    assert [letter.id for letter in store.letters] == [letter.id for letter in same.letters]
    assert read.counts == again.counts
    for letter in store.letters:
        assert letter.message.startswith("line ")
        assert content[letter.byte_offset :].startswith(letter.original)


def dead_letter(store: MemoryStore) -> tuple[Reason, str, bytes]:
    """The only one."""
    [letter] = store.letters
    return letter.reason, letter.message, letter.original


@pytest.mark.parametrize(
    "text",
    [
        line(
            "NIXL transfer failure: handshake_failed | Context: {'failure_type': 'handshake_failed', 'request_id'"
        ),
        line("NIXL transfer failure: x | Context: {'failure_type': 1}"),
        line("NIXL transfer failure: "),
        line("NIXL transfer failure: handshake_failed | Context: {'failure_type': 'a', 'request_id': ['x']}"),
        line("Releasing expired KV blocks for request a after 30 s"),
        line("Recovered from KV load failure: some request(s)"),
        line("non-default args: {'port': "),
        line("Initializing a V1 LLM engine (v0.27.0) with config: model='x"),
        line("Failing 3 request(s) due to KV load failure (failure_policy=fail). Request IDs: set()"),
    ],
)
def test_one_of_ours_that_cannot_be_read_is_a_dead_letter(tmp_path: Path, text: str) -> None:
    """With file, line number, reason and the bytes as they were."""
    read, store = read_lines(tmp_path, decode=[access(), text])
    reason, message, original = dead_letter(store)
    assert (Reason.NOT_UNDERSTOOD, text.encode()) == (reason, original)
    assert message.startswith("line 2: ")
    assert str(tmp_path / "decode.log") == store.letters[0].source
    assert [] == store.named("kv.read.end")
    adds_up(read, 2)


@pytest.mark.parametrize(
    "text",
    [
        "a prompt that speaks of Releasing expired KV blocks for request x",
        line('  File "scheduler.py", line 1: "Recovered from KV load failure: "'),
        line("due to KV load failure nothing happened"),
        'GET "x HTTP/" 200',
        "version 1.2.3",
    ],
)
def test_a_line_that_only_quotes_the_words_is_not_ours(tmp_path: Path, text: str) -> None:
    """No event, no dead letter."""
    read, store = read_lines(tmp_path, decode=[text])
    assert ([], []) == (store.events, store.letters)
    adds_up(read, 1)


def test_ids_that_are_not_utf8_are_a_dead_letter(tmp_path: Path) -> None:
    """An id with a replacement character in it would join with nothing."""
    path = tmp_path / "decode.log"
    original = failure(1).encode().replace(b"req-1-bbbb", b"req-\xff-bbbb")
    path.write_bytes(original + b"\n")
    read, store = read_files(decode=[path])
    assert (Reason.NOT_UTF8, original) == dead_letter(store)[::2]
    adds_up(read, 1)


def test_nul_bytes_are_passed_over(tmp_path: Path) -> None:
    """A crash leaves blocks of zeros in a file."""
    path = tmp_path / "decode.log"
    path.write_bytes(b"\0" * 4096 + failure(1).encode() + b"\n")
    assert 1 == len(read_files(decode=[path])[1].named("kv.read.end"))


def test_a_line_without_end_is_bounded(tmp_path: Path) -> None:
    """Only its beginning is kept, and what comes after it is read."""
    path = tmp_path / "decode.log"
    huge = b"x" * (3 * MAX_LINE_BYTES)
    ours = failure(1).encode() + b" " * (2 * MAX_LINE_BYTES)
    path.write_bytes(b"\n".join([huge, ours, failure(2).encode(), b""]))
    read, store = read_files(decode=[path])
    reason, message, original = dead_letter(store)
    assert Reason.TOO_LONG == reason
    assert f"{len(ours):,} bytes" in message
    assert original == ours[: len(original)]
    assert ["chatcmpl-req-2-bbbbbbbb"] == [event["request_id"] for event in store.named("kv.read.end")]
    assert 1 == read.counts.meaningless["too_long"]
    adds_up(read, 3)


def test_a_file_that_is_damaged_further_on_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """The damage is told; what came before it is kept."""
    path = tmp_path / "decode.log.gz"
    packed = gzip.compress(
        "\n".join([failure(1), *(line(f"filler {n} {n * 7919}") for n in range(20_000))]).encode()
    )
    path.write_bytes(packed[: len(packed) // 2])
    read, store = read_files(decode=[path])
    assert 1 == len(store.named("kv.read.end"))
    assert "decode.log.gz cannot be read after line" in read.damage[0]
    adds_up(read, read.counts.lines)


def test_a_log_that_grew_keeps_its_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All chunks but the last have the same events, with the same ids."""
    monkeypatch.setattr("falseok_pipeline.sources.logs.numbering.CHUNK_LINES", 10)
    path = tmp_path / "decode.log"
    lines = [failure(number) for number in range(25)]
    path.write_text("".join(f"{text}\n" for text in lines))
    before = {event["id"] for event in read_files(decode=[path])[1].events if event["name"] == "kv.read.end"}
    path.write_text("".join(f"{text}\n" for text in [*lines, *(failure(n) for n in range(25, 40))]))
    after = {event["id"] for event in read_files(decode=[path])[1].events if event["name"] == "kv.read.end"}
    assert (25, 40) == (len(before), len(after))
    assert 15 <= len(before & after)


def test_ids_are_gap_free_and_never_shared(tmp_path: Path) -> None:
    """Within a boot `seq` runs from 1; other content has another boot."""
    _, store = read_lines(
        tmp_path, prefill=start("prefill"), decode=[*start("decode"), failure(1), failure(2), access()]
    )
    by_boot: dict[str, list[int]] = {}
    for event in store.events:
        assert f"{event['boot']}-{event['seq']}" == event["id"]
        by_boot.setdefault(event["boot"], []).append(event["seq"])
    assert all(list(range(1, len(found) + 1)) == sorted(found) for found in by_boot.values())
    assert all(boot.startswith("log-") for boot in by_boot)
    _, other = read_lines(tmp_path, decode=[*start("decode"), failure(1), failure(3), access()])
    assert not {event["id"] for event in other.named("kv.read.end")} & {event["id"] for event in store.events}


def test_the_name_of_a_file_does_not_matter(tmp_path: Path) -> None:
    """Nor its compression, nor the order in which files are named."""
    lines = [*start("decode"), failure(1), access()]
    _, plain = read_lines(tmp_path, decode=lines)
    packed = tmp_path / "other.log.3.gz"
    packed.write_bytes(gzip.compress((tmp_path / "decode.log").read_bytes()))
    _, other = read_files(decode=[packed])
    assert plain.events == other.events
