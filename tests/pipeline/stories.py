"""Builds the events a request leaves in both engines, process by process, as the collector would write them.

It knows the event contract only: what the pipeline makes of the events is for the tests to say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from falseok_collector.attributes import (
    ApiResponse,
    Attributes,
    CollectorHeartbeat,
    EngineConfig,
    HookState,
    KvHandshake,
    KvLeaseEnd,
    KvOffer,
    KvReadEnd,
    KvReadStart,
    KvRelease,
    SchedAdmit,
    SchedFinish,
    SchedPreempt,
    SchedResume,
    SchedWaitRemote,
)
from falseok_collector.events import Envelope, Origin, encode

START_MICROS = 1_764_542_452_000_000
STEP_MICROS = 1_000


@dataclass
class Process:
    """One process of an engine: its own boot and gap-free sequence."""

    engine_id: str
    group: str
    boot: str
    process: str
    rank: int = -1
    seq: int = 1

    def emit(self, now_micros: int, attributes: Attributes, **envelope: Any) -> bytes:
        """One line, numbered next in this process."""
        event = Envelope(
            v=1,
            id=f"{self.boot}-{self.seq}",
            ts=now_micros,
            mono=now_micros - START_MICROS,
            boot=self.boot,
            seq=self.seq,
            name=attributes.event_name,
            origin=Origin.HOOK,
            engine_id=self.engine_id,
            group=self.group,
            rank=self.rank,
            host="node-1",
            pid=4_000 + len(self.boot),
            **envelope,
        )
        self.seq += 1
        return encode(event, attributes)


@dataclass
class Engine:
    """An engine with its three processes."""

    engine_id: str
    group: str
    name: str
    dtype: str = "torch.bfloat16"
    vllm: str = "0.27.0"
    block_size: int = 16
    enforce: bool = True

    def __post_init__(self) -> None:
        self.api = Process(self.engine_id, self.group, f"{self.name}api0", "api_server")
        self.core = Process(self.engine_id, self.group, f"{self.name}core0", "engine_core")
        self.worker = Process(self.engine_id, self.group, f"{self.name}worker0", "worker", rank=0)

    @property
    def compatibility_hash(self) -> str:
        """What the engine would advertise."""
        return sha256(f"{self.vllm}{self.dtype}".encode()).hexdigest()

    def config(self, now_micros: int, role: str) -> list[bytes]:
        """What worker and API server report at start-up."""
        worker = EngineConfig(
            process="worker",
            role=role,
            kv_connector="NixlConnector",
            versions={"vllm": self.vllm, "nixl": "1.5.1"},
            kv_transfer_config={"kv_connector": "NixlConnector", "kv_role": role},
            factors={"dtype": self.dtype, "vllm_version": self.vllm, "num_kv_heads": 1},
            factors_compared={
                "dtype": self.dtype.removeprefix("torch."),
                "vllm_version": self.vllm,
                "num_kv_heads": "1",
            },
            compatibility_hash=self.compatibility_hash,
            enforce_handshake_compat=self.enforce,
            kv_load_failure_policy="fail",
            reports_failed_receives=False,
            hybrid_memory_allocator=True,
            block_size=self.block_size,
            region_lengths_bytes=[32768, 32768],
            tensor_parallel_size=1,
            pipeline_parallel_size=1,
            dtype=self.dtype,
            kv_lease_seconds=30.0,
            environment={"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"},
        )
        api = EngineConfig(
            process="api_server",
            model="models/tiny",
            served_model_names=["tiny"],
            chat_template_hash="c0ffee",
        )
        return [self.worker.emit(now_micros, worker), self.api.emit(now_micros + 1, api)]


@dataclass
class Fleet:
    """A prefill and a decode engine that hand requests over, and the clock both are read by."""

    prefill: Engine = field(default_factory=lambda: Engine("3689deac-prefill", "10.0.0.1:5600", "p"))
    decode: Engine = field(default_factory=lambda: Engine("36c6eafa-decode", "10.0.0.2:5700", "d"))
    now_micros: int = START_MICROS

    def tick(self) -> int:
        """Let a millisecond pass and tell the time."""
        self.now_micros += STEP_MICROS
        return self.now_micros

    def configs(self) -> list[bytes]:
        """Start-up reports of both engines."""
        return [
            *self.prefill.config(self.tick(), "kv_producer"),
            *self.decode.config(self.tick(), "kv_consumer"),
        ]

    def heartbeat(self, process: Process, hooks: Iterable[HookState] = ()) -> bytes:
        """A heartbeat of one process."""
        beat = CollectorHeartbeat(process=process.process, events_emitted=process.seq - 1, hooks=list(hooks))
        return process.emit(self.tick(), beat)

    def handshake(self, outcome: str = "ok", **values: Any) -> bytes:
        """An attempt of decode to greet prefill."""
        shake = KvHandshake(
            remote_engine_id=self.prefill.engine_id,
            remote_host="10.0.0.1",
            remote_port=5600,
            outcome=outcome,
            local_hash=self.decode.compatibility_hash,
            remote_hash=self.prefill.compatibility_hash,
            duration_seconds=0.02,
            **values,
        )
        return self.decode.worker.emit(self.tick(), shake)


class Story:
    """One request on its way through both engines. Every method adds the event of that name to `lines`."""

    def __init__(self, fleet: Fleet, number: int, *, tokens: int = 183, salt_id: str = "salt-1") -> None:
        self.fleet = fleet
        self.number = number
        self.tokens = tokens
        self.salt_id = salt_id
        self.external_id = f"req-{number}"
        self.prefill_request = f"chatcmpl-{self.external_id}-aaaaaaaa"
        self.decode_request = f"chatcmpl-{self.external_id}-bbbbbbbb"
        self.transfer_id = f"{fleet.prefill.engine_id}/{self.prefill_request}"
        self.digest = sha256(f"blocks-{number}".encode()).hexdigest()
        self.token_ids_hash = sha256(f"tokens-{number}".encode()).hexdigest()
        self.lines: list[bytes] = []

    def prefill_event(self, process: Process, attributes: Attributes, **envelope: Any) -> None:
        """An event of this request in the prefill engine."""
        self.lines.append(
            process.emit(
                self.fleet.tick(),
                attributes,
                external_id=self.external_id,
                request_id=self.prefill_request,
                transfer_id=self.transfer_id,
                **envelope,
            )
        )

    def decode_event(self, process: Process, attributes: Attributes, **envelope: Any) -> None:
        """An event of this request in the decode engine."""
        values: dict[str, Any] = {
            "request_id": self.decode_request,
            "external_id": self.external_id,
            "transfer_id": self.transfer_id,
        } | envelope
        self.lines.append(process.emit(self.fleet.tick(), attributes, **values))

    # the prefill leg

    def prefill_admit(self) -> None:
        """Prefill takes the request."""
        self.prefill_event(self.fleet.prefill.core, SchedAdmit(leg="prefill", prompt_tokens=self.tokens))

    def offer(self, **values: Any) -> None:
        """Prefill offers its blocks."""
        offer: dict[str, Any] = {
            "block_ids": [[1, 2, 3], [4, 5, 6]],
            "block_counts": [3, 3],
            "digest": self.digest,
            "computed_tokens": self.tokens,
            "prompt_tokens": self.tokens,
            "output_tokens": 1,
            "remote_num_tokens": self.tokens,
            "token_ids_hash": self.token_ids_hash,
            "tokens_hashed": self.tokens,
            "salt_id": self.salt_id,
        } | values
        self.prefill_event(self.fleet.prefill.core, KvOffer(**offer))

    def prefill_finish(self) -> None:
        """Prefill is done after one token."""
        finish = SchedFinish(
            leg="prefill", status="FINISHED_LENGTH_CAPPED", finish_reason="length", output_tokens=1
        )
        self.prefill_event(self.fleet.prefill.core, finish)

    def prefill_response(self) -> None:
        """Prefill answers the router."""
        response = ApiResponse(
            endpoint="/v1/chat/completions",
            http_status=200,
            choices=1,
            engine_request_ids=[self.prefill_request],
            kv_transfer_in="remote_decode",
            kv_transfer_out=True,
            model="tiny",
        )
        self.prefill_event(self.fleet.prefill.api, response)

    def prefill(self, **offer: Any) -> None:
        """The whole prefill leg, ending with the offer."""
        self.prefill_admit()
        self.prefill_finish()
        self.offer(**offer)
        self.prefill_response()

    def release(self, reason: str = "read") -> None:
        """Prefill lets the blocks go."""
        lease = KvLeaseEnd(reason=reason, notifications=1, notifications_expected=1)
        self.prefill_event(self.fleet.prefill.worker, lease)
        self.prefill_event(self.fleet.prefill.core, KvRelease(reason=reason, offered_seconds=0.5))

    # the decode leg

    def admit(self, **values: Any) -> None:
        """Decode takes the request."""
        admit: dict[str, Any] = {
            "leg": "decode",
            "remote_engine_id": self.fleet.prefill.engine_id,
            "remote_request_id": self.prefill_request,
            "offer_digest": self.digest,
            "remote_num_tokens": self.tokens,
            "prompt_tokens": self.tokens,
            "token_ids_hash": self.token_ids_hash,
            "tokens_hashed": self.tokens,
            "salt_id": self.salt_id,
        } | values
        self.decode_event(self.fleet.decode.core, SchedAdmit(**admit))

    def wait(self, external_tokens: int | None = None, local_hit_tokens: int = 0) -> None:
        """Decode parks it."""
        wait = SchedWaitRemote(
            external_tokens=self.tokens if external_tokens is None else external_tokens,
            local_hit_tokens=local_hit_tokens,
            prompt_tokens=self.tokens,
        )
        self.decode_event(self.fleet.decode.core, wait)

    def read_start(self, mode: str = "read", **values: Any) -> None:
        """A rank begins to read."""
        start: dict[str, Any] = {
            "remote_engine_id": self.fleet.prefill.engine_id,
            "remote_request_id": self.prefill_request,
            "offer_digest": self.digest,
            "mode": mode,
            "remote_block_counts": [3, 3],
            "local_block_counts": [3, 3],
            "handles_posted": 1,
            "local_block_size": self.fleet.decode.block_size,
            "remote_block_size": self.fleet.prefill.block_size,
        } | values
        self.decode_event(self.fleet.decode.worker, KvReadStart(**start))

    def read_end(
        self, outcome: str = "ok", failure_type: str = "", stage: str = "check", **values: Any
    ) -> None:
        """A rank's read ends."""
        end: dict[str, Any] = {
            "remote_engine_id": self.fleet.prefill.engine_id,
            "remote_request_id": self.prefill_request,
            "outcome": outcome,
            "failure_type": failure_type,
            "stage": stage,
            "duration_seconds": 0.01,
            "bytes": 393_216 if outcome == "ok" else 0,
        } | values
        self.decode_event(self.fleet.decode.worker, KvReadEnd(**end))

    def failed_read(self, failure_type: str = "handshake_failed", stage: str = "handshake") -> None:
        """A read fails."""
        self.read_end(
            "failed",
            failure_type,
            stage,
            error_class="RuntimeError",
            error_message="NIXL compatibility hash mismatch",
        )

    def resume(self, branch: str = "resume", *, marked_failed: bool = False, **values: Any) -> None:
        """Decode takes it out of the wait."""
        resume: dict[str, Any] = {
            "expected_tokens": self.tokens,
            "computed_tokens_before": self.tokens,
            "computed_tokens_after": self.tokens - 1 if branch == "resume" else 0,
            "waited_seconds": 0.05,
            "scheduler_marked_failed": marked_failed,
            "policy": "fail",
            "branch": branch,
        } | values
        self.decode_event(self.fleet.decode.core, SchedResume(**resume))

    def preempt(self, output_tokens: int) -> None:
        """Decode takes its blocks away."""
        self.decode_event(self.fleet.decode.core, SchedPreempt(output_tokens=output_tokens))

    def finish(self, output_tokens: int = 16, finish_reason: str = "length", **values: Any) -> None:
        """Decode is done with it."""
        finish: dict[str, Any] = {
            "leg": "decode",
            "status": "FINISHED_ERROR" if finish_reason == "error" else "FINISHED_LENGTH_CAPPED",
            "finish_reason": finish_reason,
            "output_tokens": output_tokens,
            "prompt_tokens": self.tokens,
        } | values
        self.decode_event(self.fleet.decode.core, SchedFinish(**finish))

    def respond(self, http_status: int = 200, **values: Any) -> None:
        """Decode answers the client."""
        good = http_status < 400
        response: dict[str, Any] = {
            "endpoint": "/v1/chat/completions",
            "http_status": http_status,
            "finish_reasons": ["length"] if good else [],
            "choices": 1 if good else 0,
            "content_characters": 80 if good else 0,
            "completion_tokens": 16 if good else 0,
            "engine_request_ids": [self.decode_request],
            "kv_transfer_in": "remote_prefill",
            "model": "tiny",
        } | values
        self.decode_event(self.fleet.decode.api, ApiResponse(**response), transfer_id="")


def healthy(fleet: Fleet, number: int, **options: Any) -> list[bytes]:
    """A request whose KV was offered, read, and answered from."""
    story = Story(fleet, number, **options)
    story.prefill()
    story.admit()
    story.wait()
    story.read_start()
    story.read_end()
    story.release()
    story.resume()
    story.finish()
    story.respond()
    return story.lines


def corrupt(fleet: Fleet, number: int, **options: Any) -> list[bytes]:
    """vLLM 0.26-0.29 with a hybrid cache: the handshake fails, decode answers all the same."""
    story = Story(fleet, number, **options)
    story.prefill()
    story.admit()
    story.wait()
    story.failed_read()
    story.resume()
    story.finish()
    story.respond()
    return story.lines


def failed_closed(fleet: Fleet, number: int, **options: Any) -> list[bytes]:
    """vLLM 0.30 and later: the same failure ends in an error."""
    story = Story(fleet, number, **options)
    story.prefill()
    story.admit()
    story.wait()
    story.failed_read()
    story.finish(output_tokens=0, finish_reason="error")
    story.respond(http_status=500, error_type="InternalServerError")
    return story.lines
