"""Builds the events that the log of a decode engine gives: what its lines say, and nothing that only hooks see."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from falseok_collector.attributes import (
    ApiResponse,
    Attributes,
    EngineConfig,
    KvReadEnd,
    SchedFinish,
    SchedResume,
)
from falseok_collector.events import Envelope, Origin, encode

REQUEST = "chatcmpl-req-1-bbbbbbbb"
TRANSFER = "prefill-1/chatcmpl-req-1-aaaaaaaa"


@dataclass
class Decode:
    """A decode engine that is known from its log only."""

    version: str = "0.27.0"
    hybrid: bool | None = None
    policy: str = "fail"
    engine_id: str = "decode-1"
    lines: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.say(
            EngineConfig(
                versions={"vllm": self.version},
                kv_load_failure_policy=self.policy,
                hybrid_memory_allocator=self.hybrid,
                served_model_names=["tiny"],
            ),
            request_id="",
            transfer_id="",
        )

    def say(self, attributes: Attributes, **envelope: Any) -> None:
        """One more event."""
        seq = len(self.lines) + 1
        values: dict[str, Any] = {
            "request_id": REQUEST,
            "external_id": "req-1",
            "transfer_id": TRANSFER,
        } | envelope
        event = Envelope(
            v=1,
            id=f"log-{self.engine_id}-{seq}",
            ts=1_764_542_452_000_000 + seq,
            mono=0,
            boot=f"log-{self.engine_id}",
            seq=seq,
            name=attributes.event_name,
            origin=Origin.LOG,
            engine_id=self.engine_id,
            **values,
        )
        self.lines.append(encode(event, attributes))

    def failed(self, *, local_blocks: int | None = 4) -> "Decode":
        """The line of a failed handshake."""
        self.say(
            KvReadEnd(
                remote_engine_id="prefill-1",
                outcome="failed",
                failure_type="handshake_failed",
                stage="handshake",
                local_blocks=local_blocks,
            )
        )
        return self

    def answered(self, status: int = 200, joined_by: str = "count_and_time", **response: Any) -> "Decode":
        """An access line that was joined."""
        note = "12 failed requests, 12 answers with 200"
        answer = ApiResponse(
            http_status=status, engine_request_ids=[REQUEST], joined_by=joined_by, join_note=note, **response
        )
        self.say(answer, request_id="", transfer_id="", external_id="")
        return self

    def scheduler(self, branch: str) -> "Decode":
        """The scheduler's line about a failed load."""
        self.say(SchedResume(branch=branch, scheduler_marked_failed=True, policy=self.policy))
        return self

    def error(self) -> "Decode":
        """The API server's line about an error in the generation."""
        self.say(SchedFinish(status="FINISHED_ERROR", finish_reason="error"))
        return self


CASES: dict[str, tuple[Callable[[str], Decode], str, str]] = {
    "answered though failed": (lambda e: Decode(engine_id=e).failed().answered(), "corrupt", "strong"),
    "an answer with the id": (
        lambda e: Decode(engine_id=e).failed().answered(joined_by="id"),
        "corrupt",
        "strong",
    ),
    "an answer with the id and text": (
        lambda e: Decode(engine_id=e).failed().answered(joined_by="id", content_characters=9),
        "corrupt",
        "proven",
    ),
    "counts do not fit": (
        lambda e: Decode(engine_id=e).failed().answered(joined_by="count_mismatch"),
        "corrupt",
        "suspected",
    ),
    "no answer seen": (lambda e: Decode(engine_id=e).failed(), "unobserved", "none"),
    "nothing was expected": (
        lambda e: Decode(engine_id=e).failed(local_blocks=0).answered(),
        "unobserved",
        "none",
    ),
    "blocks not said": (
        lambda e: Decode(engine_id=e).failed(local_blocks=None).answered(),
        "corrupt",
        "strong",
    ),
    "a version that tells the scheduler": (
        lambda e: Decode(version="0.30.0", engine_id=e).failed().answered(),
        "unobserved",
        "none",
    ),
    "0.2 is not 0.26": (
        lambda e: Decode(version="0.2.7", engine_id=e).failed().answered(),
        "unobserved",
        "none",
    ),
    "0.29 with a local version": (
        lambda e: Decode(version="0.29.1.dev3+gabc", engine_id=e).failed().answered(),
        "corrupt",
        "strong",
    ),
    "version unknown": (lambda e: Decode(version="", engine_id=e).failed().answered(), "unobserved", "none"),
    "no hybrid cache": (
        lambda e: Decode(hybrid=False, engine_id=e).failed().answered(),
        "unobserved",
        "none",
    ),
    "the scheduler was told": (
        lambda e: Decode(engine_id=e).failed().scheduler("fail").answered(500),
        "failed_closed",
        "strong",
    ),
    "an error in a stream": (
        lambda e: Decode(version="0.32.0", engine_id=e).failed().error().answered(200),
        "failed_closed",
        "strong",
    ),
    "an error in a stream of 0.27": (
        lambda e: Decode(engine_id=e).failed().error().answered(200),
        "failed_closed",
        "strong",
    ),
    "answered 500": (
        lambda e: Decode(version="0.32.0", engine_id=e).failed().answered(500),
        "failed_closed",
        "strong",
    ),
    "recomputed": (
        lambda e: Decode(policy="recompute", engine_id=e).failed().scheduler("recompute").answered(),
        "recovered",
        "strong",
    ),
    "the client left": (
        lambda e: Decode(engine_id=e).failed().answered(client_disconnected=True),
        "aborted",
        "none",
    ),
}
"""What the log says of a request of an engine named so, and the verdict and evidence that this allows."""
