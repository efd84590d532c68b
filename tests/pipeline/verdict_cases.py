"""Requests as engines leave them, and the verdict each deserves. One line says what happened; the events follow."""

# ruff: noqa: D103 - the name of each case says what its function tells

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.pipeline.stories import Engine, Fleet, Story, corrupt, failed_closed, healthy

from falseok_collector.attributes import ApiResponse, KvOffer, SchedAdmit, SchedFinish

Tell = Callable[[Fleet], list[bytes]]


@dataclass(frozen=True)
class Case:
    """A request of its own pair of engines, and columns its row must have."""

    tell: Tell
    verdict: str
    evidence: str = "none"
    reason: str = ""
    missing: tuple[str, ...] = ()
    row: dict[str, Any] = field(default_factory=dict)
    number: int = 1
    """Which of the told requests is judged."""


def to_decode(fleet: Fleet, **offer: Any) -> Story:
    """A request that prefill has offered and decode waits for."""
    story = Story(fleet, 1)
    story.prefill(**offer)
    story.admit()
    story.wait()
    return story


def answered(story: Story, **response: Any) -> list[bytes]:
    """The request resumes, finishes and is answered."""
    story.resume()
    story.finish()
    story.respond(**response)
    return story.lines


def read_well(story: Story, **start: Any) -> Story:
    """The blocks arrive."""
    story.read_start(**start)
    story.read_end()
    return story


def one_rank_of_two(fleet: Fleet) -> list[bytes]:
    story = to_decode(fleet)
    read_well(story)
    fleet.decode.worker.rank = 1
    story.failed_read("transfer_failed", "check")
    return answered(story)


def after_the_bytes(*, due: bool) -> Tell:
    def tell(fleet: Fleet) -> list[bytes]:
        story = to_decode(fleet)
        story.read_start()
        story.read_end("failed", "transfer_exception", "telemetry", post_processing_due=due)
        return answered(story)

    return tell


def preempted(before_tokens: int, *, seen: bool = True) -> Tell:
    def tell(fleet: Fleet) -> list[bytes]:
        story = to_decode(fleet)
        story.failed_read()
        story.resume()
        if seen:
            story.preempt(before_tokens)
        story.finish(preemptions=1)
        story.respond()
        return story.lines

    return tell


def streamed(*, characters: int, **response: Any) -> Tell:
    def tell(fleet: Fleet) -> list[bytes]:
        story = to_decode(fleet)
        story.failed_read()
        return answered(
            story,
            stream=True,
            content_characters=characters,
            completion_tokens=0,
            **response,
        )

    return tell


def admitted_with(**admit: Any) -> Tell:
    def tell(fleet: Fleet) -> list[bytes]:
        story = Story(fleet, 1)
        story.prefill()
        story.admit(**admit)
        story.wait()
        return answered(read_well(story))

    return tell


def offered_with(**offer: Any) -> Tell:
    return lambda fleet: answered(read_well(to_decode(fleet, **offer)))


def recomputed(*, cached_tokens: int, readmitted: bool = False) -> Tell:
    def tell(fleet: Fleet) -> list[bytes]:
        story = to_decode(fleet)
        story.failed_read()
        story.resume("recompute", marked_failed=True)
        if readmitted:
            story.admit(leg="local", offer_digest="")
        story.finish(cached_tokens=cached_tokens)
        story.respond()
        return story.lines

    return tell


def marked_by_the_scheduler(fleet: Fleet) -> list[bytes]:
    story = to_decode(fleet)
    story.resume("recompute", marked_failed=True)
    story.finish(output_tokens=0, finish_reason="error")
    story.respond(http_status=500)
    return story.lines


def cancelled_early(fleet: Fleet) -> list[bytes]:
    story = to_decode(fleet)
    story.finish(output_tokens=0, finish_reason="abort")
    return story.lines


def left_before_the_answer(fleet: Fleet) -> list[bytes]:
    story = read_well(to_decode(fleet))
    story.resume()
    story.finish(output_tokens=3, finish_reason="abort")
    story.respond(http_status=200, client_disconnected=True, content_characters=0, completion_tokens=0)
    return story.lines


def refused_at_the_door(fleet: Fleet) -> list[bytes]:
    story = Story(fleet, 1)
    story.decode_event(
        fleet.decode.api,
        ApiResponse(endpoint="/v1/completions", http_status=400, error_type="BadRequestError"),
        request_id="",
        transfer_id="",
    )
    return story.lines


def local(**response: Any) -> Tell:
    def tell(fleet: Fleet) -> list[bytes]:
        story = Story(fleet, 1)
        story.decode_event(fleet.decode.core, SchedAdmit(leg="local", prompt_tokens=9), transfer_id="")
        story.decode_event(fleet.decode.core, SchedFinish(leg="local", output_tokens=4), transfer_id="")
        story.respond(kv_transfer_in="", **response)
        return story.lines

    return tell


def whole_prompt_cached(fleet: Fleet) -> list[bytes]:
    story = Story(fleet, 1)
    story.prefill()
    story.admit()
    story.read_start(mode="notify_only", handles_posted=0)
    story.read_end("skipped")
    story.finish(cached_tokens=182)
    story.respond()
    return story.lines


def cached_prefix(fleet: Fleet) -> list[bytes]:
    story = Story(fleet, 1)
    story.prefill()
    story.admit()
    story.wait(external_tokens=55, local_hit_tokens=128)
    return answered(read_well(story))


def after_a_corrupt_one(tell: Tell) -> Tell:
    return lambda fleet: [*corrupt(fleet, 8), *tell(fleet)]


def notice_failed(fleet: Fleet) -> list[bytes]:
    story = read_well(to_decode(fleet))
    story.read_end("failed", "notification_failed", "notify")
    return answered(story)


def decode_that_offers(fleet: Fleet) -> list[bytes]:
    story = read_well(to_decode(fleet))
    story.resume()
    story.finish()
    story.decode_event(
        fleet.decode.core,
        KvOffer(digest="d" * 64),
        transfer_id=f"{fleet.decode.engine_id}/{story.decode_request}",
    )
    story.respond()
    return story.lines


def engine_error(fleet: Fleet) -> list[bytes]:
    story = read_well(to_decode(fleet))
    story.resume()
    story.finish(finish_reason="error")
    story.respond(http_status=500)
    return story.lines


def without(name: str) -> Tell:
    return lambda fleet: [line for line in healthy(fleet, 1) if f'"name":"{name}"'.encode() not in line]


def without_decode_event(name: str) -> Tell:
    def tell(fleet: Fleet) -> list[bytes]:
        mark = f'"name":"{name}"'.encode()
        mine = fleet.decode.engine_id.encode()
        return [line for line in healthy(fleet, 1) if mark not in line or b'"engine_id":"' + mine not in line]

    return tell


def other_engine(**changes: Any) -> Callable[[Fleet], None]:
    def change(fleet: Fleet) -> None:
        for name, value in changes.items():
            setattr(fleet.decode, name, value)

    return change


EXPLANATION_A = (
    "decode resumed with 183 expected, 0 received tokens after handshake_failed; "
    "16 output tokens came from it and were answered with HTTP 200"
)

CASES: dict[str, Case] = {
    # corrupt, proven: KV that never came
    "a failed handshake, answered all the same": Case(
        lambda fleet: corrupt(fleet, 1),
        "corrupt",
        "proven",
        "a_missing_kv",
        row={
            "explanation": EXPLANATION_A,
            "delivered": "yes",
            "http_status": 200,
            "expected_tokens": 183,
            "received_bytes": 0,
            "output_tokens": 16,
            "failure_types": ["handshake_failed"],
            "failure_messages": ["NIXL compatibility hash mismatch"],
            "resume_branch": "resume",
            "policy": "fail",
            "scheduler_marked_failed": False,
            "external_id": "req-1",
            "model": "tiny",
        },
    ),
    "one rank of two failed": Case(
        one_rank_of_two, "corrupt", "proven", "a_missing_kv", row={"received_bytes": 393_216}
    ),
    "bytes came but were never converted": Case(
        after_the_bytes(due=True), "corrupt", "proven", "a_missing_kv"
    ),
    "preempted after five bad tokens": Case(
        preempted(5), "corrupt", "proven", "a_missing_kv", row={"preemptions": 1}
    ),
    "streamed, and an error after tokens": Case(
        streamed(characters=12, error_in_stream=True),
        "corrupt",
        "proven",
        "a_missing_kv",
        row={"delivered": "yes", "stream": True},
    ),
    "streamed, and the client left after tokens": Case(
        streamed(characters=12, client_disconnected=True),
        "corrupt",
        "proven",
        "a_missing_kv",
        row={"delivered": "yes"},
    ),
    "answered by a front end nobody watches": Case(
        lambda fleet: [line for line in corrupt(fleet, 1) if b'"api.response"' not in line],
        "corrupt",
        "proven",
        "a_missing_kv",
        row={"delivered": "unknown", "has_response": False},
    ),
    # corrupt, proven: KV of something else
    "other blocks than offered": Case(
        admitted_with(offer_digest="f" * 64), "corrupt", "proven", "b_other_blocks"
    ),
    "another prompt": Case(admitted_with(token_ids_hash="e" * 64), "corrupt", "proven", "f_other_prompt"),
    "a longer prompt than prefill computed": Case(
        offered_with(remote_num_tokens=150), "corrupt", "proven", "f_other_prompt"
    ),
    "another LoRA": Case(admitted_with(lora="tenant-b"), "corrupt", "proven", "f_other_prompt"),
    # failed closed
    "a failed handshake, answered with 500": Case(
        lambda fleet: failed_closed(fleet, 1),
        "failed_closed",
        "proven",
        row={
            "http_status": 500,
            "delivered": "no",
            "explanation": "the transfer failed (handshake_failed) and the request ended in an error (HTTP 500)",
        },
    ),
    "an error before any token of a stream": Case(
        streamed(characters=0, error_in_stream=True), "failed_closed", "proven", row={"http_status": 200}
    ),
    "an error finish nobody saw answered": Case(
        lambda fleet: failed_closed(fleet, 1)[:-1], "failed_closed", "proven", row={"has_response": False}
    ),
    "marked as failed by the scheduler alone": Case(marked_by_the_scheduler, "failed_closed", "proven"),
    # cancelled and refused
    "cancelled while it waited": Case(cancelled_early, "aborted"),
    "the client left before a whole answer": Case(left_before_the_answer, "aborted"),
    "refused before it reached an engine": Case(
        refused_at_the_door, "rejected", row={"http_status": 400, "leg": "unknown", "external_id": "req-1"}
    ),
    # recovered
    "computed again after a failure": Case(
        recomputed(cached_tokens=0),
        "recovered",
        "proven",
        row={
            "explanation": "the transfer failed (handshake_failed), decode computed the prompt itself "
            "and answered with 16 tokens"
        },
    ),
    "admitted again after a failure": Case(
        recomputed(cached_tokens=183, readmitted=True), "recovered", "proven"
    ),
    # nothing asked for
    "no remote KV asked for": Case(local(), "local", row={"prefill_engine_id": "", "decode_engine_id": ""}),
    "no remote KV asked for, and an error": Case(local(http_status=500), "local"),
    # healthy
    "offered, read, answered": Case(
        lambda fleet: healthy(fleet, 1),
        "healthy",
        row={
            "explanation": "183 tokens expected from remote and received from the offered blocks",
            "received_bytes": 393_216,
        },
    ),
    "only the notice of completion failed": Case(notice_failed, "healthy"),
    "the router appended the first token": Case(admitted_with(prompt_tokens=184), "healthy"),
    "part of the prompt from a clean cache": Case(cached_prefix, "healthy", row={"local_hit_tokens": 128}),
    "the whole prompt from a clean cache": Case(
        whole_prompt_cached,
        "healthy",
        row={"explanation": "the whole prompt was in decode's prefix cache; nothing had to be read"},
    ),
    "decode offers its own blocks as well": Case(decode_that_offers, "healthy", row={"leg": "decode"}),
    # not to be judged
    "no offer seen": Case(without("kv.offer"), "unobserved", missing=("kv.offer",)),
    "no end of the read seen": Case(without("kv.read.end"), "unobserved", missing=("kv.read.end",)),
    "no wait seen": Case(without("sched.wait_remote"), "healthy", row={"expected_tokens": 183}),
    "no wait and no resume seen": Case(
        lambda fleet: [line for line in without("sched.resume")(fleet) if b"wait_remote" not in line],
        "unobserved",
        missing=("sched.wait_remote",),
    ),
    "no resume seen": Case(without("sched.resume"), "unobserved", missing=("sched.resume",)),
    "no finish seen": Case(without_decode_event("sched.finish"), "unobserved", missing=("sched.finish",)),
    "no response seen": Case(without_decode_event("api.response"), "unobserved", missing=("api.response",)),
    "no admission seen": Case(without_decode_event("sched.admit"), "unobserved", missing=("sched.admit",)),
    "no digest of the offer": Case(offered_with(digest=""), "unobserved", missing=("offer_digest",)),
    "no hash of the prompt": Case(offered_with(token_ids_hash=""), "unobserved", missing=("token_ids_hash",)),
    "hashes with other salts": Case(
        admitted_with(salt_id="salt-2", token_ids_hash="e" * 64), "unobserved", missing=("same_salt_id",)
    ),
    "hashes of other lengths": Case(
        admitted_with(tokens_hashed=100, token_ids_hash="e" * 64),
        "unobserved",
        missing=("comparable_prompt",),
    ),
    "part of the prompt from a poisoned cache": Case(
        after_a_corrupt_one(cached_prefix), "unobserved", missing=("clean_prefix_cache",)
    ),
    "the whole prompt from a poisoned cache": Case(
        after_a_corrupt_one(whole_prompt_cached), "unobserved", missing=("clean_prefix_cache",)
    ),
    "a failed read after the bytes came": Case(
        after_the_bytes(due=False), "unobserved", missing=("kv.read.end",)
    ),
    "preempted before its first bad token": Case(
        preempted(0), "unobserved", missing=("kv.read.end", "outcome_of_failed_read", "second_admission")
    ),
    "preempted, nobody saw when": Case(
        preempted(0, seen=False),
        "unobserved",
        missing=("kv.read.end", "sched.preempt", "outcome_of_failed_read", "second_admission"),
    ),
    "failed, and no sign of what came of it": Case(
        lambda fleet: [line for line in corrupt(fleet, 1) if b'"sched.resume"' not in line],
        "unobserved",
        missing=("kv.read.end", "sched.resume", "outcome_of_failed_read"),
    ),
    "recomputed, nobody saw how much": Case(
        recomputed(cached_tokens=183),
        "unobserved",
        missing=("kv.read.end", "second_admission", "outcome_of_failed_read"),
    ),
    "an error that no transfer explains": Case(engine_error, "unobserved", missing=("cause_of_error",)),
}
"""By what happened."""

PAIRS: dict[str, tuple[Callable[[Fleet], None], tuple[str, ...]]] = {
    "formats differ though the read succeeded": (
        other_engine(dtype="torch.float16", enforce=False),
        ("equal_configuration",),
    ),
    "block sizes differ": (other_engine(block_size=128), ("block_mapping",)),
}
"""Pairs whose good reads prove nothing, and what a healthy request lacks there."""


def fleet_of(number: int) -> Fleet:
    """A pair of engines of its own."""
    return Fleet(
        Engine(f"prefill-{number}", f"10.0.{number}.1:5600", f"p{number}"),
        Engine(f"decode-{number}", f"10.0.{number}.2:5700", f"d{number}"),
    )
