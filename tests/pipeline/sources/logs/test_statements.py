"""Every kind of line that means something, and the events it gives."""

from pathlib import Path

import pytest
from tests.pipeline.sources.logs.lines import (
    DECODE_ID,
    HASHES,
    PREFILL_ID,
    access,
    failure,
    handshake_failure,
    line,
    mismatch,
    start,
    traceback,
)
from tests.pipeline.sources.logs.reading import read_lines


def test_a_failed_handshake_of_a_request(tmp_path: Path) -> None:
    """A read that failed, with everything the context and the traceback say."""
    _, store = read_lines(tmp_path, decode=[*start("decode"), failure(1), *traceback(mismatch())])
    [event] = store.named("kv.read.end")
    expected = {
        "engine_id": DECODE_ID,
        "request_id": "chatcmpl-req-1-bbbbbbbb",
        "external_id": "req-1",
        "transfer_id": f"{PREFILL_ID}/chatcmpl-req-1-aaaaaaaa",
        "origin": "log",
        "pid": 31,
        "rank": 0,
    }
    assert expected == {name: event[name] for name in expected}
    assert {
        "remote_engine_id": PREFILL_ID,
        "remote_request_id": "chatcmpl-req-1-aaaaaaaa",
        "outcome": "failed",
        "failure_type": "handshake_failed",
        "stage": "handshake",
        "error_class": "RuntimeError",
        "error_message": mismatch().partition(": ")[2],
        "local_blocks": 4,
    } == event["attrs"]


@pytest.mark.parametrize(
    ("error", "failure_type", "exception_class"),
    [
        (mismatch(), "hash_mismatch", "RuntimeError"),
        (
            "RuntimeError: Remote NIXL agent engine ID mismatch. Expected a,received b.",
            "engine_id_mismatch",
            "RuntimeError",
        ),
        ("zmq.error.Again: Resource temporarily unavailable", "unreachable", "Again"),
        ("AssertionError", "layout_mismatch", "AssertionError"),
        ("AssertionError: Local block size 16 is not divisible by 48", "layout_mismatch", "AssertionError"),
        ("RuntimeError: Heterogeneous TP expects same kv_cache_layout", "layout_mismatch", "RuntimeError"),
        ("NotImplementedError: Replicated PCP cannot be paired", "unsupported", "NotImplementedError"),
        ("RuntimeError: Failed to decode NixlAgentMetadata. Error: x", "undecodable", "RuntimeError"),
        ("nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND", "other", "nixlBackendError"),
    ],
)
def test_a_failed_attempt(tmp_path: Path, error: str, failure_type: str, exception_class: str) -> None:
    """Without a request it is a handshake; its kind is the exception's, as the hooks classify it."""
    _, store = read_lines(
        tmp_path, decode=[handshake_failure(), *traceback(error, place="base_worker.py:901")]
    )
    [event] = store.named("kv.handshake")
    assert ("failed", failure_type, exception_class) == (
        event["attrs"]["outcome"],
        event["attrs"]["failure_type"],
        event["attrs"]["exception_class"],
    )
    hashes = HASHES if "hash mismatch" in error else ("", "")
    assert hashes == (event["attrs"].get("local_hash", ""), event["attrs"].get("remote_hash", ""))


def test_a_chained_exception_is_told_by_its_last_one(tmp_path: Path) -> None:
    """“During handling of the above exception” and “direct cause” put the outer one last."""
    first = traceback("ValueError: inner")
    between = [
        line(""),
        line("The above exception was the direct cause of the following exception:"),
        line(""),
    ]
    _, store = read_lines(tmp_path, decode=[failure(1), *first, *between, *traceback("RuntimeError: outer")])
    [event] = store.named("kv.read.end")
    assert ("RuntimeError", "outer") == (event["attrs"]["error_class"], event["attrs"]["error_message"])


def test_failures_in_a_row_from_the_same_place_stay_apart(tmp_path: Path) -> None:
    """A second failure is not part of the first one's traceback."""
    lines = [failure(1), *traceback(mismatch()), failure(2), *traceback("AssertionError"), failure(3)]
    _, store = read_lines(tmp_path, decode=lines)
    assert ["RuntimeError", "AssertionError", None] == [
        event["attrs"].get("error_class") for event in store.named("kv.read.end")
    ]


def test_interleaved_processes_keep_their_own_tracebacks(tmp_path: Path) -> None:
    """Two ranks fail at once, line by line: each failure ends with its own exception."""
    one = [failure(1, label="Worker_TP0", pid=1), *traceback("RuntimeError: a", label="Worker_TP0", pid=1)]
    two = [failure(2, label="Worker_TP1", pid=2), *traceback("ValueError: b", label="Worker_TP1", pid=2)]
    mixed = [text for pair in zip(one, two, strict=True) for text in pair]
    _, store = read_lines(tmp_path, decode=mixed)
    assert [(0, "RuntimeError", "a"), (1, "ValueError", "b")] == [
        (event["rank"], event["attrs"]["error_class"], event["attrs"]["error_message"])
        for event in sorted(store.named("kv.read.end"), key=lambda event: event["rank"])
    ]


@pytest.mark.parametrize(
    ("failure_type", "stage"),
    [
        ("transfer_setup_failed", "setup"),
        ("transfer_failed", "check"),
        ("transfer_exception", "check"),
        ("notification_failed", "notify"),
        ("transfer_release_failed", "release"),
        ("push_reg_handshake_failed", None),
    ],
)
def test_every_failure_type(tmp_path: Path, failure_type: str, stage: str | None) -> None:
    """With the sentence that some releases add, and without."""
    lines = [
        failure(1, failure_type=failure_type),
        failure(2, failure_type=failure_type, said="Marking blocks as invalid"),
    ]
    _, store = read_lines(tmp_path, decode=lines)
    assert [(failure_type, stage)] * 2 == [
        (event["attrs"]["failure_type"], event["attrs"].get("stage")) for event in store.named("kv.read.end")
    ]


def test_an_exception_after_the_bytes_arrived_names_its_call(tmp_path: Path) -> None:
    """The traceback tells whether the look at a finished transfer failed, or the transfer."""
    told = [
        "Traceback (most recent call last):",
        "    x = self.nixl_wrapper.get_xfer_telemetry(handle)",
        "KeyError: 1",
    ]
    lines = [failure(1, failure_type="transfer_exception"), *(line(text) for text in told)]
    _, store = read_lines(tmp_path, decode=lines)
    assert "telemetry" == store.named("kv.read.end")[0]["attrs"]["stage"]


def test_leases_and_late_notices_of_prefill(tmp_path: Path) -> None:
    """They name the request; the engine is that of the process."""
    request = "chatcmpl-req-1-aaaaaaaa"
    lines = [
        *start("prefill"),
        line(
            f"Releasing expired KV blocks for request {request} which were retrieved by 2 remote worker(s) "
            "before lease expired."
        ),
        line(
            f"Potentially invalid KV blocks for unrecognized request {request} were retrieved by a decode worker. "
            "They may have expired."
        ),
    ]
    read, store = read_lines(tmp_path, prefill=lines)
    [lease], [notice] = store.named("kv.lease_end"), store.named("kv.notice")
    assert {"reason": "expired", "notifications": 2} == lease["attrs"]
    for event in (lease, notice):
        assert (PREFILL_ID, f"{PREFILL_ID}/{request}", "req-1") == (
            event["engine_id"],
            event["transfer_id"],
            event["external_id"],
        )
    assert [(PREFILL_ID, request, 2)] == read.servers[0].leases


def test_a_declined_read(tmp_path: Path) -> None:
    """vLLM logs no failure for it: this line is the only trace."""
    told = f"Declining expired remote read for chatcmpl-req-1-bbbbbbbb from engine {PREFILL_ID}."
    read, store = read_lines(tmp_path, decode=[*start("decode"), line(told, level="WARNING")])
    [event] = store.named("kv.read.end")
    assert ("failed", "declined", "setup", PREFILL_ID) == tuple(
        event["attrs"][name] for name in ("outcome", "failure_type", "stage", "remote_engine_id")
    )
    assert 1 == len(read.failures)


def test_the_scheduler_fails_requests_by_name(tmp_path: Path) -> None:
    """One resume each, marked failed."""
    told = (
        "Failing 2 request(s) due to KV load failure (failure_policy=fail, 96 tokens affected). "
        "Request IDs: {'chatcmpl-req-1-bbbbbbbb', 'chatcmpl-req-2-bbbbbbbb'}"
    )
    _, store = read_lines(tmp_path, decode=[failure(1), failure(2), line(told, label="EngineCore")])
    events = store.named("sched.resume")
    assert ["chatcmpl-req-1-bbbbbbbb", "chatcmpl-req-2-bbbbbbbb"] == [event["request_id"] for event in events]
    assert {"scheduler_marked_failed": True, "policy": "fail", "branch": "fail"} == events[0]["attrs"]
    assert {DECODE_ID} == {event["engine_id"] for event in events}


@pytest.mark.parametrize(("said", "resumed"), [(2, 2), (3, 0)])
def test_the_scheduler_recovers_a_number_of_requests(tmp_path: Path, said: int, resumed: int) -> None:
    """The line gives a number only: it is those that failed just before when the number is theirs, else nobody's."""
    told = f"Recovered from KV load failure: {said} request(s) rescheduled (96 tokens affected)."
    lines = [failure(1), failure(2), line(told, label="EngineCore", level="WARNING")]
    read, store = read_lines(tmp_path, decode=lines)
    assert ["recompute"] * resumed == [event["attrs"]["branch"] for event in store.named("sched.resume")]
    assert 1 == read.counts.understood["load_failure"]


@pytest.mark.parametrize("reported", ["chatcmpl-req-1", "chatcmpl-req-1-bbbbbbbb"])
def test_an_error_in_the_generation_finds_its_request(tmp_path: Path, reported: str) -> None:
    """The API server writes the id without the random suffix that the engine adds."""
    told = f"Request {reported} failed with an internal error during generation"
    _, store = read_lines(tmp_path, decode=[failure(1), line(told, label="APIServer", pid=29)])
    [event] = store.named("sched.finish")
    assert ("chatcmpl-req-1-bbbbbbbb", DECODE_ID) == (event["request_id"], event["engine_id"])
    assert {"status": "FINISHED_ERROR", "finish_reason": "error"} == event["attrs"]


@pytest.mark.parametrize(
    ("path", "generates"),
    [
        ("/v1/chat/completions", True),
        ("/v1/completions", True),
        ("/v1/responses", True),
        ("/v1/messages", True),
        ("/inference/v1/generate", True),
        ("/proxy/v1/chat/completions?x=1", True),
        ("/v1/chat/completions/render", False),
        ("/v1/messages/count_tokens", False),
        ("/health", False),
        ("/v1/models", False),
    ],
)
def test_only_generating_endpoints_answer_requests(tmp_path: Path, path: str, generates: bool) -> None:
    """The others are counted as other access lines."""
    read, _ = read_lines(tmp_path, decode=[access(path=path), access(path=path, method="GET")])
    assert (generates, 2 - generates) == (
        bool(read.counts.understood["access_line"]),
        read.counts.meaningless["other_access_line"],
    )


def test_the_start_of_an_engine(tmp_path: Path) -> None:
    """One configuration with arguments, version, role and the factors both logs show; credentials are cut out."""
    decode = start("decode", version="0.28.1", dtype="torch.float16", extra="'api_key': ['sk-secret'], ")
    _, store = read_lines(tmp_path, prefill=start("prefill", version="0.28.1"), decode=decode)
    prefill_config, decode_config = (event["attrs"] for event in store.named("engine.config"))
    assert {
        "vllm_version": "0.28.1",
        "model": "tiny",
        "dtype": "torch.float16",
        "cache_dtype": "auto",
        "attn_backend_name": "CPU_ATTN",
        "transfer_mode": "pull",
        "speculative_config": None,
    } == decode_config["factors"]
    assert "float16" == decode_config["factors_compared"]["cache_dtype"]
    assert ("kv_producer", "kv_consumer") == (prefill_config["role"], decode_config["role"])
    assert ("fail", True, 30.0, ["tiny"]) == tuple(
        decode_config[name]
        for name in (
            "kv_load_failure_policy",
            "enforce_handshake_compat",
            "kv_lease_seconds",
            "served_model_names",
        )
    )
    assert "sk-secret" not in str(store.events)
    assert 8100 == decode_config["non_default_arguments"]["port"]


def test_a_factor_that_one_log_does_not_show_is_compared_with_nothing(tmp_path: Path) -> None:
    """A log that was cut must not make the engines seem to differ."""
    cut = [text for text in start("decode") if "attention backend" not in text]
    _, store = read_lines(tmp_path, prefill=start("prefill"), decode=cut)
    assert all("attn_backend_name" not in event["attrs"]["factors"] for event in store.named("engine.config"))


@pytest.mark.parametrize(
    ("lines", "hybrid"),
    [
        (start("decode"), None),
        (start("decode", extra="'disable_hybrid_kv_cache_manager': False, "), None),
        (start("decode", extra="'disable_hybrid_kv_cache_manager': True, "), False),
        (
            [*start("decode"), line("Turning off hybrid kv cache manager because `--kv-transfer-config`")],
            False,
        ),
    ],
)
def test_a_hybrid_cache_that_is_off(tmp_path: Path, lines: list[str], hybrid: bool | None) -> None:
    """Only that it is off can be known: whether a model needs it is in no line."""
    _, store = read_lines(tmp_path, decode=lines)
    assert hybrid == store.named("engine.config")[0]["attrs"].get("hybrid_memory_allocator")


def test_a_restart_in_one_file_gives_two_engines(tmp_path: Path) -> None:
    """What the first one failed at stays with it."""
    second = [text.replace(DECODE_ID, "33333333-new") for text in start("decode", dtype="torch.float32")]
    read, store = read_lines(tmp_path, decode=[*start("decode"), failure(1), *second])
    assert [DECODE_ID, "33333333-new"] == [engine.engine_id for engine in read.engines]
    assert ["torch.bfloat16", "torch.float32"] == [
        event["attrs"]["dtype"] for event in store.named("engine.config")
    ]
    assert DECODE_ID == store.named("kv.read.end")[0]["engine_id"]


def test_data_parallel_engines_of_one_log(tmp_path: Path) -> None:
    """Each process tells its own id; a lease belongs to the engine of its process."""
    lines = [
        *start("prefill")[:2],
        line(f"Initializing NIXL worker {PREFILL_ID}_dp0", label="Worker_DP0", pid=40),
        line(f"Initializing NIXL worker {PREFILL_ID}_dp1", label="Worker_DP1", pid=41),
        line(
            "Releasing expired KV blocks for request a-1 which were retrieved by 0 remote worker(s) before",
            label="Worker_DP1",
            pid=41,
        ),
    ]
    read, store = read_lines(tmp_path, prefill=lines)
    assert [f"{PREFILL_ID}_dp0", f"{PREFILL_ID}_dp1"] == [engine.engine_id for engine in read.engines]
    assert f"{PREFILL_ID}_dp1" == store.named("kv.lease_end")[0]["engine_id"]
    assert {"0.27.0"} == {event["attrs"]["versions"]["vllm"] for event in store.named("engine.config")}


def test_a_log_without_its_start_has_a_name_of_its_own(tmp_path: Path) -> None:
    """Derived from the content, so that it is the same the next time."""
    lines = [
        line("Releasing expired KV blocks for request a-1 which were retrieved by 0 remote worker(s) before")
    ]
    names = [read_lines(tmp_path, prefill=lines)[1].events[0]["engine_id"] for _ in range(2)]
    assert names[0].startswith("log-prefill-")
    assert 1 == len(set(names))
