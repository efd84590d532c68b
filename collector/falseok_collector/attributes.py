"""The attributes of every event of contract version 1, one typed struct an event name.

A new field is always optional and has a default; a removed or re-typed field needs a new contract version.
The descriptions become the generated reference in `docs/events.md`.
"""

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

MAX_BLOCK_IDS = 4096
"""Block-id lists longer than this are cut; the digest always covers the whole list."""


class Attributes(Struct, omit_defaults=True, kw_only=True):
    """Base of all attribute structs. `event_name` is the name the attributes travel under."""

    event_name: ClassVar[str] = ""


class KvGroup(Struct, omit_defaults=True, kw_only=True, frozen=True):
    """One KV cache group of the hybrid memory allocator (vLLM `KVCacheGroupSpec`)."""

    kind: Annotated[
        str, Meta(description="Class of the group's KV cache spec, for example FullAttentionSpec.")
    ] = ""
    layers: Annotated[int, Meta(description="Layers in the group.")] = 0
    block_size: Annotated[int, Meta(description="Tokens per block of the group.")] = 0
    sliding_window: Annotated[int, Meta(description="Window in tokens, 0 when there is none.")] = 0


class HookState(Struct, omit_defaults=True, kw_only=True, frozen=True):
    """State of one hook, as carried by heartbeats."""

    name: Annotated[str, Meta(description="Hook name, as in the hook table.")]
    state: Annotated[str, Meta(description="pending, active, disabled or unavailable.")]
    calls: Annotated[int, Meta(description="Calls of the wrapped function seen so far.")] = 0
    errors: Annotated[int, Meta(description="Errors of our own inside the hook, all swallowed.")] = 0


class EngineConfig(Attributes):
    """What a process of an engine is configured as, captured inside the engine at start-up."""

    event_name: ClassVar[str] = "engine.config"

    process: Annotated[str, Meta(description="api_server, engine_core or worker: who reports.")] = ""
    role: Annotated[str, Meta(description="kv_role: kv_producer, kv_consumer or kv_both.")] = ""
    kv_connector: Annotated[str, Meta(description="Connector class named in --kv-transfer-config.")] = ""
    versions: Annotated[
        dict[str, str],
        Meta(description="Versions by package: vllm, nixl, torch, nixl_connector, python, falseok."),
    ] = {}
    kv_transfer_config: Annotated[
        dict[str, Any], Meta(description="The whole --kv-transfer-config, credentials redacted.")
    ] = {}
    factors: Annotated[
        dict[str, Any],
        Meta(
            description="Factors of the NIXL compatibility hash by name, verbatim as the engine hashed them."
        ),
    ] = {}
    factors_compared: Annotated[
        dict[str, str], Meta(description="The same factors normalised for comparison across engines.")
    ] = {}
    compatibility_hash: Annotated[
        str, Meta(description="SHA-256 the engine advertises in the NIXL handshake.")
    ] = ""
    enforce_handshake_compat: Annotated[
        bool | None, Meta(description="Whether this engine compares the hash when it starts a handshake.")
    ] = None
    kv_load_failure_policy: Annotated[str, Meta(description="fail or recompute, effective value.")] = ""
    reports_failed_receives: Annotated[
        bool | None,
        Meta(
            description="Whether the connector facade hands failed receives to the scheduler by request "
            "(get_transfer_results, vLLM 0.30 and later). False with a hybrid cache means fail-open."
        ),
    ] = None
    hybrid_memory_allocator: Annotated[
        bool | None, Meta(description="True when KV groups other than full attention are managed (HMA).")
    ] = None
    kv_groups: Annotated[list[KvGroup], Meta(description="KV cache groups in order.")] = []
    block_size: Annotated[int, Meta(description="Logical block size in tokens.")] = 0
    physical_blocks_per_logical_block: Annotated[
        int, Meta(description="Kernel blocks in a logical block.")
    ] = 0
    num_blocks: Annotated[int, Meta(description="Blocks in the pool, as advertised.")] = 0
    kv_cache_layout: Annotated[str, Meta(description="Advertised KV cache layout, for example HND.")] = ""
    region_count: Annotated[int, Meta(description="Memory regions registered with NIXL.")] = 0
    region_lengths_bytes: Annotated[list[int], Meta(description="Bytes per block of each region.")] = []
    attention_backend: Annotated[str, Meta(description="Attention backend name, as advertised.")] = ""
    tensor_parallel_size: int = 0
    pipeline_parallel_size: int = 0
    data_parallel_size: int = 0
    data_parallel_rank: int = 0
    decode_context_parallel_size: int = 0
    model: Annotated[str, Meta(description="--model as given.")] = ""
    served_model_names: list[str] = []
    model_revision: str = ""
    dtype: Annotated[str, Meta(description="Effective model dtype, for example torch.bfloat16.")] = ""
    kv_cache_dtype: Annotated[str, Meta(description="Configured KV cache dtype, for example auto.")] = ""
    quantization: str = ""
    max_model_len: Annotated[int, Meta(description="Tokens.")] = 0
    speculative_config: Annotated[dict[str, Any], Meta(description="Empty when speculation is off.")] = {}
    rope_parameters: Annotated[
        dict[str, Any], Meta(description="RoPE parameters of the model configuration.")
    ] = {}
    chat_template_hash: Annotated[str, Meta(description="SHA-256 of the chat template in use.")] = ""
    model_runner: Annotated[
        str, Meta(description="Class of the model runner, with v1 or v2 where known.")
    ] = ""
    cuda_graph_mode: str = ""
    enforce_eager: bool | None = None
    prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    reasoning_parser: str = ""
    tool_call_parser: str = ""
    side_channel: Annotated[str, Meta(description="host:port of this engine's NIXL side channel.")] = ""
    kv_lease_seconds: Annotated[float, Meta(description="How long prefill keeps blocks for decode.")] = 0.0
    environment: Annotated[
        dict[str, str], Meta(description="VLLM_*, UCX_* and NIXL_* environment, credentials redacted.")
    ] = {}


class EngineExit(Attributes):
    """A process of an engine ended."""

    event_name: ClassVar[str] = "engine.exit"

    process: str = ""
    reason: Annotated[str, Meta(description="clean, or silence when derived from missing heartbeats.")] = ""
    last_request_id: Annotated[str, Meta(description="Last request seen by the hooks of this process.")] = ""


class KvHandshake(Attributes):
    """One attempt at a NIXL handshake, reported by the worker that starts it (decode in pull mode)."""

    event_name: ClassVar[str] = "kv.handshake"

    remote_engine_id: str = ""
    remote_host: str = ""
    remote_port: int = 0
    outcome: Annotated[str, Meta(description="ok or failed.")] = ""
    failure_type: Annotated[
        str,
        Meta(
            description="hash_mismatch, engine_id_mismatch, unreachable, undecodable, layout_mismatch, "
            "unsupported or other."
        ),
    ] = ""
    local_hash: Annotated[str, Meta(description="Compatibility hash of this engine.")] = ""
    remote_hash: Annotated[
        str, Meta(description="Compatibility hash of the peer, where the failure names it.")
    ] = ""
    enforce_handshake_compat: bool | None = None
    exception_class: str = ""
    exception_message: Annotated[str, Meta(description="Cut at 2,000 characters.")] = ""
    duration_seconds: float = 0.0
    clock_offset_seconds: Annotated[
        float | None, Meta(description="Remote perf_counter minus local, where vLLM measured it.")
    ] = None
    clock_offset_error_seconds: Annotated[
        float | None, Meta(description="Bound of the offset's error: half the handshake's duration.")
    ] = None


class KvOffer(Attributes):
    """Blocks a producer hands out for one finished request."""

    event_name: ClassVar[str] = "kv.offer"

    block_ids: Annotated[
        list[list[int]],
        Meta(
            description="Logical block ids per group, exactly as in remote_block_ids, at most 4,096 in all."
        ),
    ] = []
    block_counts: Annotated[list[int], Meta(description="Blocks per group, before any cut.")] = []
    truncated: bool = False
    digest: Annotated[str, Meta(description="SHA-256 over the whole list.")] = ""
    computed_tokens: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    remote_num_tokens: Annotated[int, Meta(description="Token count told to decode; 0 when absent.")] = 0
    token_ids_hash: Annotated[str, Meta(description="Keyed hash of the first tokens_hashed token ids.")] = ""
    tokens_hashed: Annotated[int, Meta(description="Token ids that went into the hash.")] = 0
    salt_id: str = ""
    lora: str = ""


class KvLeaseEnd(Attributes):
    """A producer rank let go of offered blocks."""

    event_name: ClassVar[str] = "kv.lease_end"

    reason: Annotated[str, Meta(description="read, expired or aborted.")] = ""
    notifications: int = 0
    notifications_expected: int = 0


class KvRelease(Attributes):
    """Offered blocks went back to the producer's pool. Release is not reuse."""

    event_name: ClassVar[str] = "kv.release"

    reason: Annotated[str, Meta(description="Worst reason over the ranks, empty where unknown.")] = ""
    offered_seconds: Annotated[float, Meta(description="Time since the offer.")] = 0.0


class KvNotice(Attributes):
    """A completion notice reached the producer for a transfer it no longer tracks."""

    event_name: ClassVar[str] = "kv.notice"

    known: bool = False


class KvReuse(Attributes):
    """First re-allocation of an offered block."""

    event_name: ClassVar[str] = "kv.reuse"

    group: int = 0
    index_from_end: int = 0
    block_id: int = 0
    step: int = 0
    new_owner: str = ""


class KvReadStart(Attributes):
    """Decode worker begins to fetch offered blocks. One event a rank."""

    event_name: ClassVar[str] = "kv.read.start"

    remote_engine_id: str = ""
    remote_request_id: str = ""
    offer_digest: Annotated[str, Meta(description="Digest of remote_block_ids taken on entry.")] = ""
    mode: Annotated[str, Meta(description="read, notify_only, declined or deferred.")] = ""
    remote_block_counts: Annotated[list[int], Meta(description="Offered blocks per group.")] = []
    local_block_counts: Annotated[list[int], Meta(description="Blocks to fill per group.")] = []
    handles_posted: int = 0
    descriptors: int = 0
    local_block_size: int = 0
    remote_block_size: Annotated[int, Meta(description="0 where the peer is not registered yet.")] = 0


class KvReadEnd(Attributes):
    """A fetch ended, or failed before it began. One event a rank and failure."""

    event_name: ClassVar[str] = "kv.read.end"

    remote_engine_id: str = ""
    remote_request_id: str = ""
    outcome: Annotated[str, Meta(description="ok, failed or skipped.")] = ""
    failure_type: Annotated[
        str,
        Meta(
            description="vLLM's own failure_type: handshake_failed, transfer_setup_failed, transfer_failed, "
            "transfer_exception, notification_failed, transfer_release_failed; declined where nothing was logged."
        ),
    ] = ""
    stage: Annotated[str, Meta(description="handshake, setup, check, telemetry, release or notify.")] = ""
    nixl_state: str = ""
    post_processing_due: Annotated[
        bool | None, Meta(description="Whether received blocks still needed conversion when it failed.")
    ] = None
    duration_seconds: Annotated[float, Meta(description="From post to the poll that saw the end.")] = 0.0
    bytes: int = 0
    descriptors: int = 0
    handles: int = 0
    error_class: str = ""
    error_message: Annotated[str, Meta(description="Cut at 2,000 characters.")] = ""


class SchedAdmit(Attributes):
    """A request entered the engine core, before the connector saw it."""

    event_name: ClassVar[str] = "sched.admit"

    leg: Annotated[
        str, Meta(description="prefill (do_remote_decode), decode (do_remote_prefill) or local.")
    ] = ""
    remote_engine_id: str = ""
    remote_request_id: str = ""
    offer_digest: Annotated[str, Meta(description="Digest of the incoming remote_block_ids.")] = ""
    remote_num_tokens: int = 0
    prompt_tokens: int = 0
    token_ids_hash: Annotated[str, Meta(description="Keyed hash of the first tokens_hashed token ids.")] = ""
    tokens_hashed: Annotated[int, Meta(description="Token ids that went into the hash.")] = 0
    salt_id: str = ""
    lora: str = ""


class SchedWaitRemote(Attributes):
    """A request was parked until its remote KV arrives."""

    event_name: ClassVar[str] = "sched.wait_remote"

    external_tokens: Annotated[int, Meta(description="Tokens expected from remote.")] = 0
    local_hit_tokens: Annotated[int, Meta(description="Prompt tokens already in decode's prefix cache.")] = 0
    prompt_tokens: int = 0
    block_counts: Annotated[list[int], Meta(description="Blocks allocated per group.")] = []
    remote_num_tokens: int = 0
    token_ids_hash: Annotated[str, Meta(description="Keyed hash of the first tokens_hashed token ids.")] = ""
    tokens_hashed: Annotated[int, Meta(description="Token ids that went into the hash.")] = 0
    salt_id: str = ""


class SchedResume(Attributes):
    """A parked request left the wait: the branch taken decides what its answer is worth."""

    event_name: ClassVar[str] = "sched.resume"

    expected_tokens: Annotated[int, Meta(description="External tokens it waited for.")] = 0
    computed_tokens_before: int = 0
    computed_tokens_after: int = 0
    waited_seconds: float = 0.0
    scheduler_marked_failed: bool = False
    policy: Annotated[str, Meta(description="kv_load_failure_policy in force.")] = ""
    branch: Annotated[str, Meta(description="resume, recompute or fail.")] = ""


class SchedPreempt(Attributes):
    """A running request lost its blocks."""

    event_name: ClassVar[str] = "sched.preempt"

    output_tokens: int = 0


class SchedFinish(Attributes):
    """A request left the scheduler."""

    event_name: ClassVar[str] = "sched.finish"

    leg: Annotated[str, Meta(description="prefill, decode or local.")] = ""
    status: Annotated[str, Meta(description="vLLM RequestStatus, for example FINISHED_STOPPED.")] = ""
    finish_reason: Annotated[str, Meta(description="stop, length, abort, error, repetition or ignored.")] = ""
    output_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: Annotated[int, Meta(description="Prompt tokens that were not computed here.")] = 0
    preemptions: int = 0
    nans_in_logits: int = 0
    speculative_drafted_tokens: int = 0
    speculative_accepted_tokens: int = 0
    engine_seconds: Annotated[float, Meta(description="From admission to finish.")] = 0.0


class KvPrefixReset(Attributes):
    """The prefix cache was cleared."""

    event_name: ClassVar[str] = "kv.prefix_reset"

    blocks: int = 0


class ApiResponse(Attributes):
    """What the client was answered, as the last thing the server sent."""

    event_name: ClassVar[str] = "api.response"

    endpoint: Annotated[str, Meta(description="Path, for example /v1/chat/completions.")] = ""
    http_status: int = 0
    stream: bool = False
    error_in_stream: Annotated[bool, Meta(description="An error event inside a 200 stream.")] = False
    error_type: str = ""
    finish_reasons: Annotated[list[str], Meta(description="One a choice, in order.")] = []
    choices: int = 0
    content_characters: int = 0
    reasoning_characters: int = 0
    tool_call_characters: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    time_to_first_token_seconds: float = 0.0
    duration_seconds: float = 0.0
    response_bytes: int = 0
    client_disconnected: bool = False
    engine_request_ids: Annotated[
        list[str], Meta(description="Internal ids of all engine requests that served this response.")
    ] = []
    kv_transfer_in: Annotated[
        str, Meta(description="remote_decode (a prefill leg), remote_prefill (a decode leg) or empty.")
    ] = ""
    kv_transfer_out: Annotated[bool, Meta(description="The response carried kv_transfer_params.")] = False
    model: str = ""
    features: Annotated[dict[str, float], Meta(description="Text features by their documented names.")] = {}


class ProbeResult(Attributes):
    """One probe request of `falseok verify` or of a canary."""

    event_name: ClassVar[str] = "probe.result"

    mode: str = ""
    case: str = ""
    http_status: int = 0
    agreement: float | None = None
    features: dict[str, float] = {}


class CollectorHeartbeat(Attributes):
    """The collector in one process is alive; counts since its start."""

    event_name: ClassVar[str] = "collector.heartbeat"

    process: str = ""
    events_emitted: int = 0
    events_dropped: Annotated[
        int, Meta(description="Lost because the ring was full; each leaves a gap in seq.")
    ] = 0
    events_spilled: Annotated[int, Meta(description="Lost because the spool passed its bound.")] = 0
    segments_dropped: Annotated[int, Meta(description="Spool segments removed because of the bound.")] = 0
    sink_errors: int = 0
    queue_depth: int = 0
    hooks: list[HookState] = []


class CollectorHookUnavailable(Attributes):
    """A hook does not fit this vLLM or switched itself off: the evidence it gives will be missing."""

    event_name: ClassVar[str] = "collector.hook_unavailable"

    hook: str = ""
    target: Annotated[str, Meta(description="module:qualified name of what would be wrapped.")] = ""
    reason: Annotated[str, Meta(description="missing_symbol, signature, or error.")] = ""
    detail: str = ""
    vllm_version: str = ""


ATTRIBUTES: dict[str, type[Attributes]] = {
    struct.event_name: struct
    for struct in (
        EngineConfig,
        EngineExit,
        KvHandshake,
        KvOffer,
        KvLeaseEnd,
        KvRelease,
        KvNotice,
        KvReuse,
        KvReadStart,
        KvReadEnd,
        SchedAdmit,
        SchedPreempt,
        SchedWaitRemote,
        SchedResume,
        SchedFinish,
        KvPrefixReset,
        ApiResponse,
        ProbeResult,
        CollectorHeartbeat,
        CollectorHookUnavailable,
    )
}
"""Attribute struct by event name: the closed list of names of contract version 1."""
