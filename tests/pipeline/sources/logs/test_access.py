"""Records of answers with ids, in the forms in which clients and routers keep them."""

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.sources.logs.lines import access, failure, start
from tests.pipeline.sources.logs.reading import MemoryStore, read_files

from falseok_pipeline.dead_letters import Reason
from falseok_pipeline.sources.logs.ingest import Read


def read_access(folder: Path, *records: str) -> tuple[Read, MemoryStore]:
    """One failed request `req-1`, one answer without an id, and these records."""
    log, noted = folder / "decode.log", folder / "client.jsonl"
    log.write_text("".join(f"{text}\n" for text in [*start("decode"), failure(1), access()]))
    noted.write_text("".join(f"{text}\n" for text in records))
    return read_files(decode=[log], access=[noted])


@pytest.mark.parametrize(
    ("record", "attrs"),
    [
        (
            '{"x_request_id": "req-1", "status": 200, "finish": "length", "text": "abc"}',
            {"http_status": 200, "finish_reasons": ["length"], "content_characters": 3},
        ),
        ('{"request_id": "chatcmpl-req-1", "status_code": "500"}', {"http_status": 500}),
        (
            '{"headers": {"X-Request-Id": "req-1"}, "response": {"status": 200}, "usage": {"completion_tokens": 7}}',
            {"http_status": 200, "completion_tokens": 7},
        ),
        (
            '{"id": "chatcmpl-req-1", "http_status": 200, "stream": true, "error": {"message": "x"}}',
            {"http_status": 200, "stream": True, "error_in_stream": True},
        ),
        (
            '10.0.0.1 - - [30/Nov/2026:21:35:13 +0000] "POST /v1/chat HTTP/1.1" 200 12 "req-1"',
            {"http_status": 200},
        ),
        ("time=x request_id=req-1 status=503 upstream=y", {"http_status": 503}),
    ],
)
def test_every_form(tmp_path: Path, record: str, attrs: dict[str, Any]) -> None:
    """Id and status are found; the answer without an id is then not joined to anything."""
    read, store = read_access(tmp_path, record)
    [event] = store.named("api.response")
    told = {"joined_by": "id", "join_note": "the record carries the request's id"}
    assert {**attrs, **told, "engine_request_ids": ["chatcmpl-req-1-bbbbbbbb"]} == event["attrs"]
    assert (1, []) == (read.joined_by_id, read.joined)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ('{"x_request_id": "req-2", "status": 200}', "no_failed_request"),
        ('{"x_request_id": "req-1"}', "no_status"),
        ('{"x_request_id": "req-1", "status": "soon"}', "no_status"),
        ('1.2.3.4 "GET / HTTP/1.1" 200 5', "no_failed_request"),
        ("nothing", "no_status"),
        ("", "blank"),
    ],
)
def test_what_says_nothing_is_counted(tmp_path: Path, record: str, kind: str) -> None:
    """And the count and time of the log decide."""
    read, _ = read_access(tmp_path, record)
    assert {kind: 1} == dict(read.access.meaningless)
    assert ["count_and_time"] == [answer.joined_by for answer in read.joined]


@pytest.mark.parametrize("record", ['{"x_request_id": "req-1", "status"', "{}{}", '{"a": ' * 5_000])
def test_broken_records_are_dead_letters(tmp_path: Path, record: str) -> None:
    """With their line and bytes."""
    read, store = read_access(tmp_path, record)
    assert [(Reason.NOT_JSON, record.encode())] == [
        (letter.reason, letter.original) for letter in store.letters
    ]
    assert 1 == read.access.dead_letters


@pytest.mark.parametrize(
    ("time", "micros"),
    [
        ('"2026-11-30T21:35:20Z"', 1_796_074_520_000_000),
        ("1796074520", 1_796_074_520_000_000),
        ("1796074520.5", 1_796_074_520_500_000),
        ("1796074520500", 1_796_074_520_500_000),
        ('"soon"', None),
    ],
)
def test_the_time_of_a_record(tmp_path: Path, time: str, micros: int | None) -> None:
    """RFC 3339 or seconds, milliseconds, microseconds since the epoch; else that of the failure."""
    _, store = read_access(tmp_path, f'{{"id": "req-1", "status": 200, "ts": {time}}}')
    failed = store.named("kv.read.end")[0]["ts"]
    assert (micros or failed) == store.named("api.response")[0]["ts"]
