"""`falseok ingest logs` on the logs of a real pair: every line of the case's `expected.md` is an assertion here."""

import gzip
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.command_line import answer, falseok, words
from tests.pipeline.sources.logs.cases import case_files, case_text, pair_logs

PREFILL = "a3f812ef-d150-461a-a91b-b60cb065de48"
DECODE = "55652616-bf0a-4728-ae68-a3832cf83e8f"
LOCAL_HASH = "bd5fdfbf00572962bc82b5cb4e14f02fa78d0e9629d7617b17380b655d8bb7e8"
REMOTE_HASH = "a50fbfb8dc81034c660ca256a40f65508bb2deaf04c3b830d52e5c29f92fccca"
CLIENT_IDS = [f"client-{number:02}" for number in range(12)]


class Ingested:
    """A data directory and the report of how it was filled."""

    def __init__(self, folder: Path, *, with_access: bool) -> None:
        self.data = folder / "data"
        self.prefill, self.decode, self.client = case_files(folder)
        access = ("--access", self.client) if with_access else ()
        self.arguments = ("--prefill", self.prefill, "--decode", self.decode, *access, "--data", self.data)
        result = falseok("ingest", "logs", *self.arguments, "--json")
        self.exit_code = result.exit_code
        self.stderr = result.stderr
        self.report: dict[str, Any] = msgspec.json.decode(result.stdout)


@pytest.fixture(scope="module")
def logs_only(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    """The two logs alone."""
    return Ingested(tmp_path_factory.mktemp("logs"), with_access=False)


@pytest.fixture(scope="module")
def with_access(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    """The two logs and what the client noted."""
    return Ingested(tmp_path_factory.mktemp("access"), with_access=True)


def test_engines_with_version_role_and_arguments(logs_only: Ingested) -> None:
    """One prefill and one decode engine, 0.27.0 on both, the non-default arguments of each."""
    prefill, decode = logs_only.report["engines"]
    assert (PREFILL, "prefill", "kv_producer", "0.27.0") == (
        prefill["engine_id"],
        prefill["role"],
        prefill["kv_role"],
        prefill["vllm_version"],
    )
    assert (DECODE, "decode", "kv_consumer", "0.27.0") == (
        decode["engine_id"],
        decode["role"],
        decode["kv_role"],
        decode["vllm_version"],
    )
    assert ("torch.bfloat16", "torch.float32") == (prefill["dtype"], decode["dtype"])
    assert (8100, None) == tuple(prefill["non_default_arguments"].get(name) for name in ("port", "dtype"))
    assert (8200, "float32") == tuple(decode["non_default_arguments"].get(name) for name in ("port", "dtype"))
    transfer = prefill["non_default_arguments"]["kv_transfer_config"]
    assert ("NixlConnector", "fail") == (transfer["kv_connector"], transfer["kv_load_failure_policy"])
    assert (43_851, 21_925) == (prefill["kv_cache_tokens"], decode["kv_cache_tokens"])
    assert ("CPU_ATTN", "CPU_ATTN") == (prefill["attention_backend"], decode["attention_backend"])


def test_only_the_dtype_differs(logs_only: Ingested) -> None:
    """Of the hash factors that the logs show, one differs, with both values."""
    assert [
        {
            "prefill_engine_id": PREFILL,
            "decode_engine_id": DECODE,
            "factor": "dtype",
            "prefill": "torch.bfloat16",
            "decode": "torch.float32",
        }
    ] == logs_only.report["differing_factors"]
    assert {"vllm_version", "model", "cache_dtype", "attn_backend_name", "dtype", "is_hma_enabled"} == set(
        logs_only.report["engines"][0]["factors"]
    )


def test_handshake_failed_with_both_hashes(logs_only: Ingested) -> None:
    """A hash mismatch, the local (decode) and the remote (prefill) value."""
    [pair] = logs_only.report["handshakes"]
    assert (PREFILL, DECODE) == (pair["prefill_engine_id"], pair["decode_engine_id"])
    assert (11, 11, ["hash_mismatch"]) == (pair["attempts"], pair["failures"], pair["failure_types"])
    assert (LOCAL_HASH, REMOTE_HASH) == (pair["local_hash"], pair["remote_hash"])
    prefill, decode = logs_only.report["engines"]
    assert (REMOTE_HASH, LOCAL_HASH) == (prefill["compatibility_hash"], decode["compatibility_hash"])


def test_twelve_failures_joined_to_twelve_answers(logs_only: Ingested) -> None:
    """By count and time, since access lines carry no id; the counts fit."""
    failures = logs_only.report["failures"]
    assert (12, {"handshake_failed": 12}) == (failures["requests"], failures["failure_types"])
    assert (0, 12, 0, 0) == (
        failures["joined_by_id"],
        failures["joined_by_count_and_time"],
        failures["joined_though_counts_do_not_fit"],
        failures["without_answer"],
    )
    [window] = failures["windows"]
    assert (12, 12, 0, True) == (
        window["failed_requests"],
        window["answers_2xx"],
        window["answers_5xx"],
        window["fits"],
    )
    assert {"200": 12} == logs_only.report["answers"]


def test_twelve_leases_expired_without_a_reader(logs_only: Ingested) -> None:
    """Each names one of the twelve requests."""
    leases = logs_only.report["leases"]
    assert (12, 12, 12) == (leases["expired"], leases["without_readers"], leases["of_failed_requests"])
    assert CLIENT_IDS == sorted(
        re.fullmatch(r"chatcmpl-(.*)-[0-9a-f]{8}", id_).group(1)  # type: ignore[union-attr]
        for id_ in leases["request_ids"]
    )


def test_twelve_corrupt_strong(logs_only: Ingested) -> None:
    """Reason missing KV; never proven from lines alone; the exit status says that corruption was found."""
    [verdict] = logs_only.report["verdicts"]
    assert ("corrupt", "strong", "a_missing_kv", 12) == (
        verdict["verdict"],
        verdict["evidence"],
        verdict["reason"],
        verdict["requests"],
    )
    assert 1 == logs_only.exit_code


def test_every_line_is_counted_and_none_is_dead(logs_only: Ingested) -> None:
    """Read = understood + meaningless; nothing dead-lettered."""
    lines = logs_only.report["lines"]
    wanted = sum(
        len(case_text(name).removesuffix("\n").split("\n")) for name in ("prefill.log", "decode.log")
    )
    assert (wanted, 0) == (lines["read"], lines["dead_lettered"])
    assert wanted == sum(lines["understood"].values()) + sum(lines["meaningless"].values())
    assert (24, 23, 12) == tuple(
        lines["understood"][kind] for kind in ("access_line", "transfer_failure", "lease_expired")
    )


@pytest.mark.parametrize("evidence", ["strong", "proven"])
def test_triage_works_on_the_data(evidence: str, logs_only: Ingested, with_access: Ingested) -> None:
    """One incident of twelve requests; dtype with both values first, then that this vLLM fails open."""
    ingested = logs_only if evidence == "strong" else with_access
    [incident] = answer("triage", "incidents", "--data", ingested.data)
    assert [incident] == ingested.report["incidents"]
    assert ("corrupt", "a_missing_kv", evidence, 12) == (
        incident["verdict"],
        incident["reason"],
        incident["evidence"],
        incident["affected"],
    )
    assert ["hash-factor-dtype", "hma-receive-failure-not-propagated"] == [
        c["id"] for c in incident["causes"]
    ]
    assert "torch.bfloat16" in incident["causes"][0]["explanation"]
    assert "torch.float32" in incident["causes"][0]["explanation"]
    shown = words(falseok("triage", "show", incident["id"], "--data", ingested.data).stdout)
    assert f"CORRUPT, {evidence.upper()} 12 requests answered 200 with corrupted output" in shown
    assert "dtype prefill torch.bfloat16 decode torch.float32" in shown
    affected = answer("triage", "affected", incident["id"], "--data", ingested.data)
    assert CLIENT_IDS == sorted(row["external_id"] for row in affected)


def test_ids_in_the_access_file_prove_it(with_access: Ingested) -> None:
    """An answer with text that carries the id of a failed request leaves nothing to count."""
    [verdict] = with_access.report["verdicts"]
    assert ("corrupt", "proven", 12) == (verdict["verdict"], verdict["evidence"], verdict["requests"])
    assert 12 == with_access.report["failures"]["joined_by_id"]
    assert {"answer_with_id": 12} == with_access.report["access"]["understood"]


def test_no_text_of_an_answer_is_stored(with_access: Ingested) -> None:
    """Only its length."""
    rows = answer("triage", "sql", "SELECT toJSONString(attrs) AS a FROM events", "--data", with_access.data)
    assert rows
    assert not [row for row in rows if "buildingcextei" in row["a"]]


def test_again_is_the_same_as_once(tmp_path: Path) -> None:
    """The same files, and then rotated and compressed copies of them: no event more, the same report."""
    once = Ingested(tmp_path, with_access=False)
    count = ("triage", "sql", "SELECT count() AS n FROM events FINAL", "--data", once.data)
    [stored] = answer(*count)
    packed = tmp_path / "old" / "decode.log.2.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(once.decode.read_bytes()))
    again = falseok(
        *("ingest", "logs", "--prefill", once.prefill, "--decode", packed, once.decode),
        *("--data", once.data, "--json"),
    )
    falseok("ingest", "logs", *once.arguments)
    assert [stored] == answer(*count)
    assert once.report["events"] == stored["n"]
    report = msgspec.json.decode(again.stdout)
    assert once.report["verdicts"] == report["verdicts"]
    assert once.report["incidents"] == report["incidents"]


def test_a_copy_beside_the_original_is_left_out(tmp_path: Path) -> None:
    """A compressed copy of the same piece does not double the counts."""
    once = Ingested(tmp_path, with_access=False)
    copy = once.decode.with_name("decode.log.1.gz")
    copy.write_bytes(gzip.compress(once.decode.read_bytes()))
    result = falseok("ingest", "logs", "--prefill", once.prefill, "--decode", copy, once.decode, "--json")
    report = msgspec.json.decode(result.stdout)
    assert 1 == len(report["repeated_files"])
    assert once.report["lines"] == report["lines"]
    assert once.report["verdicts"] == report["verdicts"]


def test_the_table_says_the_same_and_where_the_data_is(tmp_path: Path) -> None:
    """Without --data the store is a new temporary directory, which is named with the commands to go on with."""
    prefill, decode, _ = case_files(tmp_path)
    result = falseok("ingest", "logs", "--prefill", prefill, "--decode", decode)
    text = words(result.stdout)
    for part in (
        f"prefill {PREFILL}: vLLM 0.27.0, kv_producer",
        "dtype: prefill torch.bfloat16, decode torch.float32",
        "11 of 11 attempts in the log failed (hash_mismatch)",
        LOCAL_HASH,
        REMOTE_HASH,
        "12 requests with a failed transfer (12 handshake_failed)",
        "12 joined to answers by count and time",
        "12 leases expired on prefill, 12 of them read by nobody",
        "12 corrupt, a_missing_kv, strong",
        "859 read: 527 understood, 332 meaningless, 0 dead letters",
        "CORRUPT, STRONG",
    ):
        assert part in text
    data = re.search(r"The events are in (\S+)\. Go on from there:", text)
    assert data is not None
    assert "falseok-logs-" in data.group(1)
    assert 12 == answer("triage", "incidents", "--data", data.group(1))[0]["affected"]


def test_status_names_no_collector_that_never_was(logs_only: Ingested) -> None:
    """Log files are no collectors: nothing is said to be silent or lost."""
    status = falseok("status", "--data", logs_only.data)
    assert "heartbeat" not in status.stdout
    assert "12 corrupt" in words(status.stdout)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"hello\nworld\n", "None of the 2 lines"),
        (b"", "None of the 0 lines"),
        (b"\x1f\x8b\x08garbage", "cannot be read"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path: Path, content: bytes | None, message: str) -> None:
    """Exit 2 and what to do."""
    path = tmp_path / "decode.log"
    if content is not None:
        path.write_bytes(content)
    result = falseok("ingest", "logs", "--decode", path)
    assert (2, "") == (result.exit_code, result.stdout)
    assert message in words(result.stderr)


def test_a_wrong_time_zone_and_no_file_are_refused() -> None:
    """Before anything is read."""
    assert 2 == falseok("ingest", "logs").exit_code
    result = falseok("ingest", "logs", "--decode", "x", "--time-zone", "Mars/Base")
    assert 2 == result.exit_code
    assert "There is no time zone Mars/Base" in result.stderr


def test_a_healthy_pair_gives_nothing(tmp_path: Path) -> None:
    """Look-alike: the same lines of start-up and answers, no failure: exit 0, no verdict, no incident."""
    prefill, decode = pair_logs("healthy", tmp_path)
    result = falseok("ingest", "logs", "--prefill", prefill, "--decode", decode, "--json")
    report = msgspec.json.decode(result.stdout)
    assert 0 == result.exit_code
    assert ([], [], [], {"200": 8}) == tuple(
        report[name] for name in ("verdicts", "incidents", "differing_factors", "answers")
    )
    assert ["0.32.0", "0.32.0"] == [engine["vllm_version"] for engine in report["engines"]]
    assert 0 == report["lines"]["dead_lettered"]


def test_a_version_that_fails_closed_is_not_called_corrupt(tmp_path: Path) -> None:
    """Look-alike: the same fault on 0.32.0. Half the answers are 200, streams that end in an error; vLLM's own cleanup
    requests, which fail as well, are nobody's.
    """
    prefill, decode = pair_logs("failed_closed", tmp_path)
    result = falseok("ingest", "logs", "--prefill", prefill, "--decode", decode, "--json")
    report = msgspec.json.decode(result.stdout)
    assert 0 == result.exit_code
    assert [("failed_closed", "strong", 12)] == [
        (row["verdict"], row["evidence"], row["requests"]) for row in report["verdicts"]
    ]
    assert {"200": 6, "500": 6} == report["answers"]
    assert (12, 12, 0) == tuple(
        report["failures"][name] for name in ("requests", "ended_in_error_by_log", "without_answer")
    )
    [incident] = report["incidents"]
    assert ("failed_closed", "hash-factor-dtype") == (incident["verdict"], incident["causes"][0]["id"])


@pytest.mark.parametrize(
    ("answers", "verdict", "evidence", "exit_code"),
    [
        (11, "corrupt", "suspected", 1),
        (13, "corrupt", "suspected", 1),
        (0, "unobserved", "none", 2),
    ],
)
def test_counts_that_do_not_fit_are_said(
    tmp_path: Path, answers: int, verdict: str, evidence: str, exit_code: int
) -> None:
    """An answer too few or too many is a suspicion only; without any, nothing is known of the answers."""
    prefill, decode, _ = case_files(tmp_path)
    lines = decode.read_text().split("\n")
    places = [number for number, text in enumerate(lines) if '"POST /v1/chat/completions' in text]
    for number in places[answers:]:
        lines[number] = ""
    lines[places[0]] = "\n".join([lines[places[0]]] * max(answers - 11, 1))
    decode.write_text("\n".join(lines))
    result = falseok("ingest", "logs", "--prefill", prefill, "--decode", decode, "--json")
    report = msgspec.json.decode(result.stdout)
    assert exit_code == result.exit_code
    assert [(verdict, evidence, 12)] == [
        (row["verdict"], row["evidence"], row["requests"]) for row in report["verdicts"]
    ]
    [window] = report["failures"]["windows"]
    assert not window["fits"]
    assert window["note"].startswith("12 failed requests, ")
