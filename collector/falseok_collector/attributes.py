"""The attributes of every event of contract version 1, one typed struct an event name.

A new field is always optional and has a default; a removed or re-typed field needs a new contract version.
The descriptions become the generated reference in `docs/events.md`.
One catalogue in one file on purpose: it is read and reviewed as a whole.
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
    state: Annotated[
        str, Meta(description="pending, active, disabled, unavailable, or absent (not in this vLLM).")
    ]
    calls: Annotated[int, Meta(description="Calls of the wrapped function seen so far.")] = 0
    errors: Annotated[int, Meta(description="Errors of our own inside the hook, all swallowed.")] = 0


class SinkState(Struct, omit_defaults=True, kw_only=True, frozen=True):
    """State of one sink, as carried by heartbeats; counts since the start of the process."""

    name: Annotated[str, Meta(description="spool, kafka, otlp or memory.")]
    state: Annotated[
        str,
        Meta(
            description="ok, retrying (events wait in memory), spooling (the receiver is away), draining "
            "(it is back, the sink's own spool is sent) or unavailable (its library is not installed)."
        ),
    ]
    events_sent: Annotated[int, Meta(description="Events the receiver has confirmed.")] = 0
    events_waiting: Annotated[
        int,
        Meta(description="Events of this process that wait for this sink, in memory or in its own spool."),
    ] = 0
    events_lost: Annotated[int, Meta(description="Events this sink will never deliver.")] = 0
    errors: Annotated[int, Meta(description="Failed attempts; they are repeated.")] = 0
    last_error: Annotated[str, Meta(description="Class of the last failure.")] = ""


class AnsweredChoice(Struct, omit_defaults=True, kw_only=True, frozen=True):
    """One choice of an answer, as carried by `api.response`."""

    index: Annotated[int, Meta(description="Index of the choice.")]
    finish_reason: Annotated[
        str,
        Meta(
            description="As the body has it; of the responses API the reason it is incomplete, else its status. "
            "Empty: none was given."
        ),
    ] = ""
    kinds: Annotated[
        list[str],
        Meta(description="reasoning, content and tool_calls in the order of their first appearance."),
    ] = []
    content_characters: Annotated[int, Meta(description="Characters of text.")] = 0
    reasoning_characters: Annotated[int, Meta(description="Characters of reasoning.")] = 0
    tool_call_characters: Annotated[int, Meta(description="Characters of tool names and arguments.")] = 0
    tool_calls: Annotated[int, Meta(description="Tool calls.")] = 0


class EngineConfig(Attributes):
    """What a process of an engine is configured as, captured inside the engine at start-up."""

    event_name: ClassVar[str] = "engine.config"

    process: Annotated[
        str,
        Meta(
            description="api_server, engine_core or worker: who reports; log when it was read from log files."
        ),
    ] = ""
    role: Annotated[str, Meta(description="kv_role: kv_producer, kv_consumer or kv_both.")] = ""
    kv_connector: Annotated[str, Meta(description="Connector class named in --kv-transfer-config.")] = ""
    connectors: Annotated[
        list[str], Meta(description="Connectors in the order they are asked; several under MultiConnector.")
    ] = []
    transfer_mode: Annotated[
        str,
        Meta(
            description="pull (NIXL, decode reads), push (NIXL, prefill writes), other (another connector) or mixed."
        ),
    ] = ""
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
    tensor_parallel_size: Annotated[int, Meta(description="--tensor-parallel-size.")] = 0
    pipeline_parallel_size: Annotated[int, Meta(description="--pipeline-parallel-size.")] = 0
    data_parallel_size: Annotated[int, Meta(description="--data-parallel-size.")] = 0
    data_parallel_rank: Annotated[
        int, Meta(description="Rank of this engine among the data-parallel ones.")
    ] = 0
    decode_context_parallel_size: Annotated[int, Meta(description="--decode-context-parallel-size.")] = 0
    model: Annotated[str, Meta(description="--model as given.")] = ""
    served_model_names: Annotated[list[str], Meta(description="Names the API answers to.")] = []
    model_revision: Annotated[str, Meta(description="--revision as given.")] = ""
    dtype: Annotated[str, Meta(description="Effective model dtype, for example torch.bfloat16.")] = ""
    kv_cache_dtype: Annotated[str, Meta(description="Configured KV cache dtype, for example auto.")] = ""
    quantization: Annotated[str, Meta(description="Quantisation method, empty when there is none.")] = ""
    max_model_len: Annotated[int, Meta(description="Tokens.")] = 0
    speculative_config: Annotated[dict[str, Any], Meta(description="Empty when speculation is off.")] = {}
    rope_parameters: Annotated[
        dict[str, Any], Meta(description="RoPE parameters of the model configuration.")
    ] = {}
    chat_template_hash: Annotated[str, Meta(description="SHA-256 of the chat template in use.")] = ""
    model_runner: Annotated[
        str, Meta(description="Class of the model runner, with v1 or v2 where known.")
    ] = ""
    cuda_graph_mode: Annotated[str, Meta(description="Effective CUDA-graph mode.")] = ""
    enforce_eager: Annotated[bool | None, Meta(description="Whether CUDA graphs are off altogether.")] = None
    prefix_caching: Annotated[bool | None, Meta(description="Whether the prefix cache is on.")] = None
    async_scheduling: Annotated[
        bool | None, Meta(description="Whether scheduling overlaps the forward pass.")
    ] = None
    reasoning_parser: Annotated[str, Meta(description="--reasoning-parser.")] = ""
    tool_call_parser: Annotated[str, Meta(description="--tool-call-parser.")] = ""
    side_channel: Annotated[str, Meta(description="host:port of this engine's NIXL side channel.")] = ""
    kv_lease_seconds: Annotated[float, Meta(description="How long prefill keeps blocks for decode.")] = 0.0
    environment: Annotated[
        dict[str, str], Meta(description="VLLM_*, UCX_* and NIXL_* environment, credentials redacted.")
    ] = {}
    non_default_arguments: Annotated[
        dict[str, Any],
        Meta(description="Arguments as vLLM prints those that are not the default, credentials redacted."),
    ] = {}
    kv_cache_tokens: Annotated[int, Meta(description="Tokens the KV cache holds, where a log says so.")] = 0


class EngineExit(Attributes):
    """A process of an engine ended."""

    event_name: ClassVar[str] = "engine.exit"

    process: Annotated[str, Meta(description="api_server, engine_core or worker.")] = ""
    reason: Annotated[
        str,
        Meta(description="clean, exception: CLASS, or silence when derived from missing heartbeats."),
    ] = ""
    last_request_id: Annotated[str, Meta(description="Last request seen by the hooks of this process.")] = ""


class KvHandshake(Attributes):
    """One attempt at a NIXL handshake, reported by the worker that starts it (decode in pull mode)."""

    event_name: ClassVar[str] = "kv.handshake"

    remote_engine_id: Annotated[str, Meta(description="Engine id the peer is expected to have.")] = ""
    remote_host: Annotated[str, Meta(description="Host of the peer's side channel.")] = ""
    remote_port: Annotated[int, Meta(description="Port of the peer's side channel.")] = 0
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
    enforce_handshake_compat: Annotated[
        bool | None, Meta(description="Whether the hashes are compared in this handshake.")
    ] = None
    exception_class: Annotated[str, Meta(description="Class of the exception that ended the attempt.")] = ""
    exception_message: Annotated[str, Meta(description="Cut at 2,000 characters.")] = ""
    duration_seconds: Annotated[float, Meta(description="From the first byte to acceptance or failure.")] = (
        0.0
    )
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
    truncated: Annotated[bool, Meta(description="Whether block_ids were cut.")] = False
    digest: Annotated[str, Meta(description="SHA-256 over the whole list.")] = ""
    computed_tokens: Annotated[int, Meta(description="Tokens whose KV the blocks hold.")] = 0
    prompt_tokens: Annotated[int, Meta(description="Tokens of the prompt.")] = 0
    output_tokens: Annotated[int, Meta(description="Tokens generated here.")] = 0
    remote_num_tokens: Annotated[int, Meta(description="Token count told to decode; 0 when absent.")] = 0
    token_ids_hash: Annotated[str, Meta(description="Keyed hash of the first tokens_hashed token ids.")] = ""
    tokens_hashed: Annotated[int, Meta(description="Token ids that went into the hash.")] = 0
    salt_id: Annotated[str, Meta(description="Which salt keyed the hash; only equal ones compare.")] = ""
    lora: Annotated[str, Meta(description="Name of the LoRA adapter, empty when there is none.")] = ""


class KvLeaseEnd(Attributes):
    """A producer rank let go of offered blocks."""

    event_name: ClassVar[str] = "kv.lease_end"

    reason: Annotated[
        str,
        Meta(
            description="read (all consumers told that they are done), expired, or replicated (another rank hands "
            "out the same blocks)."
        ),
    ] = ""
    notifications: Annotated[int, Meta(description="Completion notices received.")] = 0
    notifications_expected: Annotated[int, Meta(description="Completion notices that had to come.")] = 0


class KvRelease(Attributes):
    """Offered blocks went back to the producer's pool. Release is not reuse."""

    event_name: ClassVar[str] = "kv.release"

    reason: Annotated[str, Meta(description="Worst reason over the ranks, empty where unknown.")] = ""
    offered_seconds: Annotated[float, Meta(description="Time since the offer.")] = 0.0


class KvNotice(Attributes):
    """A completion notice reached the producer for a transfer it no longer tracks."""

    event_name: ClassVar[str] = "kv.notice"

    known: Annotated[bool, Meta(description="Whether the transfer had been offered at all.")] = False


class KvReuse(Attributes):
    """Offered blocks were given to someone else and written: the first re-allocation of each.

    One event for the blocks of one offer and group that were taken at once. Sent when the engine step that
    wrote them was over.
    """

    event_name: ClassVar[str] = "kv.reuse"

    group: Annotated[int, Meta(description="KV cache group of the blocks.")] = 0
    index_from_end: Annotated[
        int, Meta(description="Place of block_id in the offered list, 0 is the last block.")
    ] = 0
    block_id: Annotated[
        int, Meta(description="Logical id of the block among them that is nearest to the end of the list.")
    ] = 0
    blocks: Annotated[int, Meta(description="Blocks taken at once, 1 where absent.")] = 1
    step: Annotated[int, Meta(description="Engine step in which they were allocated again.")] = 0
    allocated_seconds: Annotated[float, Meta(description="From the allocation to this event.")] = 0.0
    new_owner: Annotated[str, Meta(description="Internal id of the request that got the blocks.")] = ""
    offers_unwatched: Annotated[
        int, Meta(description="Offers not watched so far because the watch table was full.")
    ] = 0


class KvReadStart(Attributes):
    """Decode worker begins to fetch offered blocks. One event a rank."""

    event_name: ClassVar[str] = "kv.read.start"

    remote_engine_id: Annotated[str, Meta(description="Engine that offered the blocks.")] = ""
    remote_request_id: Annotated[str, Meta(description="Internal id of the request there.")] = ""
    offer_digest: Annotated[str, Meta(description="Digest of remote_block_ids taken on entry.")] = ""
    mode: Annotated[
        str,
        Meta(
            description="read, notify_only, declined or deferred (NIXL pull), push (NIXL, prefill writes) or other "
            "(another connector)."
        ),
    ] = ""
    connector: Annotated[
        str,
        Meta(
            description="Class of the connector that moves the KV, for MultiConnector the child's; empty: NIXL pull."
        ),
    ] = ""
    external_tokens: Annotated[
        int, Meta(description="Tokens it is to bring, where the connector told; else 0.")
    ] = 0
    remote_block_counts: Annotated[list[int], Meta(description="Offered blocks per group.")] = []
    local_block_counts: Annotated[list[int], Meta(description="Blocks to fill per group.")] = []
    handles_posted: Annotated[int, Meta(description="NIXL transfers started for this read.")] = 0
    descriptors: Annotated[int, Meta(description="Memory descriptors in them.")] = 0
    local_block_size: Annotated[int, Meta(description="Tokens per logical block here.")] = 0
    remote_block_size: Annotated[int, Meta(description="0 where the peer is not registered yet.")] = 0


class KvReadEnd(Attributes):
    """A fetch ended, or failed before it began. One event a rank and failure."""

    event_name: ClassVar[str] = "kv.read.end"

    remote_engine_id: Annotated[str, Meta(description="Engine that offered the blocks.")] = ""
    remote_request_id: Annotated[str, Meta(description="Internal id of the request there.")] = ""
    outcome: Annotated[str, Meta(description="ok, failed or skipped.")] = ""
    connector: Annotated[
        str,
        Meta(
            description="Class of the connector that moves the KV, for MultiConnector the child's; empty: NIXL pull."
        ),
    ] = ""
    mode: Annotated[str, Meta(description="push or other, as in kv.read.start; empty: NIXL pull.")] = ""
    failure_type: Annotated[
        str,
        Meta(
            description="vLLM's own failure_type: handshake_failed, transfer_setup_failed, transfer_failed, "
            "transfer_exception, notification_failed, transfer_release_failed; declined where nothing was logged."
        ),
    ] = ""
    stage: Annotated[str, Meta(description="handshake, setup, check, telemetry, release or notify.")] = ""
    nixl_state: Annotated[str, Meta(description="State NIXL reported, where it was one that failed.")] = ""
    post_processing_due: Annotated[
        bool | None, Meta(description="Whether received blocks still needed conversion when it failed.")
    ] = None
    duration_seconds: Annotated[float, Meta(description="From post to the poll that saw the end.")] = 0.0
    bytes: Annotated[int, Meta(description="Bytes moved, as NIXL counted them.")] = 0
    descriptors: Annotated[int, Meta(description="Memory descriptors of the read.")] = 0
    handles: Annotated[int, Meta(description="NIXL transfers of the read.")] = 0
    error_class: Annotated[str, Meta(description="Class of the exception, empty when there was none.")] = ""
    error_message: Annotated[str, Meta(description="Cut at 2,000 characters.")] = ""
    local_blocks: Annotated[
        int | None,
        Meta(description="Blocks that were to be filled, over all groups, where a log line says so."),
    ] = None


class KvInvalidBlocks(Attributes):
    """A connector named blocks that it could not fill.

    From the engine core one event for each request that had counted on such blocks (vLLM `_handle_invalid_blocks`);
    from a worker (rank 0 and up) one for each step, without a request.
    """

    event_name: ClassVar[str] = "kv.invalid_blocks"

    invalid_blocks: Annotated[int, Meta(description="Blocks named in that step, over all requests.")] = 0
    outcome: Annotated[
        str,
        Meta(
            description="failed or recompute: what the scheduler does with the request; empty from a worker."
        ),
    ] = ""
    policy: Annotated[str, Meta(description="kv_load_failure_policy in force.")] = ""
    connector: Annotated[
        str, Meta(description="Class of the connector that loads for the request, where it is not NIXL.")
    ] = ""


class KvWriteStart(Attributes):
    """Prefill worker begins to write a request's blocks into decode's memory (NIXL push). One event a rank."""

    event_name: ClassVar[str] = "kv.write.start"

    remote_engine_id: Annotated[str, Meta(description="Engine that is written to.")] = ""
    remote_request_id: Annotated[str, Meta(description="Internal id of the request there.")] = ""
    local_block_counts: Annotated[list[int], Meta(description="Blocks this side has per group.")] = []
    remote_block_counts: Annotated[list[int], Meta(description="Blocks decode wants filled per group.")] = []
    handles_posted: Annotated[int, Meta(description="NIXL transfers started for this write.")] = 0
    descriptors: Annotated[int, Meta(description="Memory descriptors in them.")] = 0


class KvWriteEnd(Attributes):
    """A write ended, or failed before it began (NIXL push). One event a rank and failure."""

    event_name: ClassVar[str] = "kv.write.end"

    remote_engine_id: Annotated[str, Meta(description="Engine that is written to.")] = ""
    remote_request_id: Annotated[str, Meta(description="Internal id of the request there.")] = ""
    outcome: Annotated[
        str,
        Meta(
            description="ok, failed, unmatched (decode never asked for the blocks) or expired (let go of while the write "
            "was under way)."
        ),
    ] = ""
    failure_type: Annotated[
        str,
        Meta(
            description="vLLM's own failure_type: push_handshake_failed, transfer_setup_failed, transfer_failed, …"
        ),
    ] = ""
    duration_seconds: Annotated[float, Meta(description="From the start of the write.")] = 0.0
    bytes: Annotated[int, Meta(description="Bytes NIXL reports as moved.")] = 0
    descriptors: Annotated[int, Meta(description="Memory descriptors of all its handles.")] = 0
    handles: Annotated[int, Meta(description="NIXL transfers of this write.")] = 0
    error_class: Annotated[str, Meta(description="Class of the exception, where there was one.")] = ""
    error_message: Annotated[str, Meta(description="Cut at 2,000 characters.")] = ""


class SchedAdmit(Attributes):
    """A request entered the engine core, before the connector saw it."""

    event_name: ClassVar[str] = "sched.admit"

    leg: Annotated[
        str,
        Meta(
            description="prefill (do_remote_decode), decode (do_remote_prefill), local, or cleanup: vLLM's own request (abort_immediately) that only tells prefill to let go."
        ),
    ] = ""
    remote_engine_id: Annotated[str, Meta(description="Engine named in the incoming kv_transfer_params.")] = (
        ""
    )
    remote_request_id: Annotated[
        str, Meta(description="Request named in the incoming kv_transfer_params.")
    ] = ""
    offer_digest: Annotated[str, Meta(description="Digest of the incoming remote_block_ids.")] = ""
    remote_num_tokens: Annotated[int, Meta(description="Token count prefill told; 0 when absent.")] = 0
    malformed: Annotated[
        list[str], Meta(description="Fields of kv_transfer_params that hold something of another type.")
    ] = []
    readmission: Annotated[
        str,
        Meta(
            description="Why blocks were given to it once more: preempted, or recompute after a failed receive; "
            "empty the first time."
        ),
    ] = ""
    external_tokens: Annotated[
        int, Meta(description="Tokens expected from remote, known at a readmission only.")
    ] = 0
    prompt_tokens: Annotated[int, Meta(description="Tokens of the prompt.")] = 0
    token_ids_hash: Annotated[str, Meta(description="Keyed hash of the first tokens_hashed token ids.")] = ""
    tokens_hashed: Annotated[int, Meta(description="Token ids that went into the hash.")] = 0
    salt_id: Annotated[str, Meta(description="Which salt keyed the hash; only equal ones compare.")] = ""
    lora: Annotated[str, Meta(description="Name of the LoRA adapter, empty when there is none.")] = ""


class SchedWaitRemote(Attributes):
    """A request was parked until its remote KV arrives."""

    event_name: ClassVar[str] = "sched.wait_remote"

    external_tokens: Annotated[int, Meta(description="Tokens expected from remote.")] = 0
    connector: Annotated[
        str,
        Meta(
            description="Class of the connector that moves the KV, for MultiConnector the child's; empty: NIXL pull."
        ),
    ] = ""
    local_hit_tokens: Annotated[int, Meta(description="Prompt tokens already in decode's prefix cache.")] = 0
    prompt_tokens: Annotated[int, Meta(description="Tokens of the prompt.")] = 0
    block_counts: Annotated[list[int], Meta(description="Blocks allocated per group.")] = []
    local_hit_block_ids: Annotated[
        list[list[list[int]]],
        Meta(
            description="Blocks found in decode's prefix cache, per group, as [first, last] ranges of ids; "
            "at most 4,096 ranges in all."
        ),
    ] = []
    truncated: Annotated[bool, Meta(description="Whether local_hit_block_ids were cut.")] = False
    remote_num_tokens: Annotated[int, Meta(description="Token count prefill told; 0 when absent.")] = 0
    token_ids_hash: Annotated[str, Meta(description="Keyed hash of the first tokens_hashed token ids.")] = ""
    tokens_hashed: Annotated[int, Meta(description="Token ids that went into the hash.")] = 0
    salt_id: Annotated[str, Meta(description="Which salt keyed the hash; only equal ones compare.")] = ""


class SchedResume(Attributes):
    """A parked request left the wait: the branch taken decides what its answer is worth."""

    event_name: ClassVar[str] = "sched.resume"

    expected_tokens: Annotated[int, Meta(description="External tokens it waited for.")] = 0
    computed_tokens_before: Annotated[
        int, Meta(description="Computed tokens when it was taken out of the wait.")
    ] = 0
    computed_tokens_after: Annotated[int, Meta(description="Computed tokens the scheduler goes on from.")] = 0
    waited_seconds: Annotated[float, Meta(description="From parking to this moment.")] = 0.0
    scheduler_marked_failed: Annotated[
        bool, Meta(description="Whether the scheduler had been told that the receive failed.")
    ] = False
    policy: Annotated[str, Meta(description="kv_load_failure_policy in force.")] = ""
    branch: Annotated[str, Meta(description="resume, recompute or fail.")] = ""


class SchedPreempt(Attributes):
    """A running request lost its blocks."""

    event_name: ClassVar[str] = "sched.preempt"

    output_tokens: Annotated[int, Meta(description="Tokens generated so far.")] = 0


class SchedFinish(Attributes):
    """A request left the scheduler."""

    event_name: ClassVar[str] = "sched.finish"

    leg: Annotated[str, Meta(description="prefill, decode, local or cleanup.")] = ""
    status: Annotated[str, Meta(description="vLLM RequestStatus, for example FINISHED_STOPPED.")] = ""
    finish_reason: Annotated[str, Meta(description="stop, length, abort, error, repetition or ignored.")] = ""
    output_tokens: Annotated[int, Meta(description="Tokens generated.")] = 0
    prompt_tokens: Annotated[int, Meta(description="Tokens of the prompt.")] = 0
    cached_tokens: Annotated[int, Meta(description="Prompt tokens that were not computed here.")] = 0
    preemptions: Annotated[int, Meta(description="How often it lost its blocks.")] = 0
    nans_in_logits: Annotated[
        int, Meta(description="NaN values seen in its logits, where vLLM counts them.")
    ] = 0
    speculative_drafted_tokens: Annotated[int, Meta(description="Tokens the draft proposed.")] = 0
    speculative_accepted_tokens: Annotated[int, Meta(description="Drafted tokens that were accepted.")] = 0
    engine_seconds: Annotated[float, Meta(description="From admission to finish.")] = 0.0
    queue_seconds: Annotated[float, Meta(description="From admission to the first blocks given to it.")] = 0.0


class KvPrefixReset(Attributes):
    """The prefix cache was cleared."""

    event_name: ClassVar[str] = "kv.prefix_reset"

    successful: Annotated[bool, Meta(description="False when vLLM refused because blocks were in use.")] = (
        False
    )
    blocks: Annotated[int, Meta(description="Offered blocks still watched at that time.")] = 0


class ApiResponse(Attributes):
    """What the client was answered, as the last thing the server sent."""

    event_name: ClassVar[str] = "api.response"

    endpoint: Annotated[str, Meta(description="Path, for example /v1/chat/completions.")] = ""
    http_status: Annotated[int, Meta(description="0 when no response was begun.")] = 0
    stream: Annotated[bool, Meta(description="Whether it was a stream of server-sent events.")] = False
    error_in_stream: Annotated[bool, Meta(description="An error event inside a 200 stream.")] = False
    error_type: Annotated[str, Meta(description="Type of the error object in the body.")] = ""
    finish_reasons: Annotated[list[str], Meta(description="One a choice, in order.")] = []
    choices: Annotated[int, Meta(description="Choices seen.")] = 0
    content_characters: Annotated[int, Meta(description="Characters of text over all choices.")] = 0
    reasoning_characters: Annotated[int, Meta(description="Characters of reasoning over all choices.")] = 0
    tool_call_characters: Annotated[
        int, Meta(description="Characters of tool names and arguments over all choices.")
    ] = 0
    prompt_tokens: Annotated[int, Meta(description="From the body's usage; 0 when absent.")] = 0
    completion_tokens: Annotated[int, Meta(description="From the body's usage; 0 when absent.")] = 0
    time_to_first_token_seconds: Annotated[
        float,
        Meta(description="From the request's arrival to the first chunk with output; 0 when not streamed."),
    ] = 0.0
    duration_seconds: Annotated[
        float, Meta(description="From the request's arrival to the end of serving it.")
    ] = 0.0
    response_bytes: Annotated[int, Meta(description="Bytes of the body handed to the server.")] = 0
    client_disconnected: Annotated[
        bool, Meta(description="The client left before the response was complete.")
    ] = False
    engine_request_ids: Annotated[
        list[str], Meta(description="Internal ids of all engine requests that served this response.")
    ] = []
    kv_transfer_in: Annotated[
        str, Meta(description="remote_decode (a prefill leg), remote_prefill (a decode leg) or empty.")
    ] = ""
    kv_transfer_out: Annotated[bool, Meta(description="The response carried kv_transfer_params.")] = False
    model: Annotated[str, Meta(description="Model named in the body.")] = ""
    features: Annotated[dict[str, float], Meta(description="Text features by their documented names.")] = {}
    features_missing: Annotated[
        str,
        Meta(
            description="Why there are no features: off, memory (too many texts waited), busy (their share of the "
            "processor was used up) or error."
        ),
    ] = ""
    captured_content: Annotated[
        list[str],
        Meta(description="Text of each choice, redacted and cut; only with FALSEOK_CAPTURE_TEXT=1."),
    ] = []
    captured_reasoning: Annotated[
        list[str],
        Meta(description="Reasoning of each choice, redacted and cut; only with FALSEOK_CAPTURE_TEXT=1."),
    ] = []
    captured_cut: Annotated[bool, Meta(description="Whether a captured text is not whole.")] = False
    choice_outputs: Annotated[list[AnsweredChoice], Meta(description="Each choice, at most 128.")] = []
    output_kinds: Annotated[
        list[str],
        Meta(
            description="reasoning, content and tool_calls in the order of their first appearance, over all choices."
        ),
    ] = []
    tool_calls: Annotated[int, Meta(description="Tool calls over all choices.")] = 0
    reasoning_tokens: Annotated[int, Meta(description="From the body's usage; 0 when absent.")] = 0
    cached_tokens: Annotated[
        int, Meta(description="Prompt tokens from a cache, from the body's usage; 0 when absent.")
    ] = 0
    stream_complete: Annotated[
        bool | None,
        Meta(
            description="Of a stream: whether it ended as its endpoint ends one ([DONE], or the last event of the "
            "responses API), without an error and with a finish reason for every choice asked for. "
            "Null when not streamed."
        ),
    ] = None
    chunks: Annotated[int, Meta(description="Events with data in the stream, [DONE] excluded.")] = 0
    keep_alives: Annotated[int, Meta(description="Comment lines in the stream.")] = 0
    unreadable: Annotated[
        str,
        Meta(
            description="Why the body was not read: encoded (compressed), too_long or not_json; empty when it was."
        ),
    ] = ""
    unreadable_events: Annotated[
        int, Meta(description="Events of the stream that are not of a known shape.")
    ] = 0
    request_unreadable: Annotated[
        str, Meta(description="Why the request's body was not read: encoded, too_long or not_json.")
    ] = ""
    requested_thinking: Annotated[
        str,
        Meta(
            description="Thinking mode asked for: on, off, an effort by its name, or default (the client did not "
            "choose). Empty when the request was not read."
        ),
    ] = ""
    requested_choices: Annotated[int, Meta(description="n as asked for; 0 when not given.")] = 0
    requested_temperature: Annotated[
        float | None, Meta(description="temperature as asked for; null when not given.")
    ] = None
    requested_max_tokens: Annotated[
        int, Meta(description="Limit on the answer's tokens as asked for; 0 when not given.")
    ] = 0
    remote_engine_id: Annotated[
        str, Meta(description="Engine that holds the KV, from the request's kv_transfer_params.")
    ] = ""
    remote_request_id: Annotated[
        str, Meta(description="Internal id of the request there, from the request's kv_transfer_params.")
    ] = ""
    tracestate_valid: Annotated[
        bool | None, Meta(description="Whether the tracestate header is valid; null when there is none.")
    ] = None
    observer: Annotated[
        str,
        Meta(description="Where it was seen: empty in an API server of vLLM, router in front of engines."),
    ] = ""
    joined_by: Annotated[
        str,
        Meta(
            description="How an answer out of a log was joined to its request: id, count_and_time (as many answers as "
            "failed requests in the window) or count_mismatch; empty where the server itself told."
        ),
    ] = ""
    join_note: Annotated[str, Meta(description="What the join rests on, in words.")] = ""


class ProbeResult(Attributes):
    """One probe request of `falseok verify` or of a canary."""

    event_name: ClassVar[str] = "probe.result"

    mode: Annotated[str, Meta(description="verify or canary.")] = ""
    case: Annotated[str, Meta(description="Name of the probe's case.")] = ""
    http_status: Annotated[int, Meta(description="Status of the answer.")] = 0
    agreement: Annotated[
        float | None, Meta(description="Share of the reference answer that was met, 0 to 1.")
    ] = None
    features: Annotated[dict[str, float], Meta(description="Text features by their documented names.")] = {}


class CollectorHeartbeat(Attributes):
    """The collector in one process is alive; counts since its start."""

    event_name: ClassVar[str] = "collector.heartbeat"

    process: Annotated[str, Meta(description="api_server, engine_core or worker.")] = ""
    events_emitted: Annotated[int, Meta(description="Events encoded for the sinks.")] = 0
    events_dropped: Annotated[
        int, Meta(description="Lost because the ring was full; each leaves a gap in seq.")
    ] = 0
    events_spilled: Annotated[int, Meta(description="Lost because the spool passed its bound.")] = 0
    segments_dropped: Annotated[int, Meta(description="Spool segments removed because of the bound.")] = 0
    sink_errors: Annotated[int, Meta(description="Writes a sink refused; they are repeated.")] = 0
    queue_depth: Annotated[int, Meta(description="Events waiting in the ring.")] = 0
    hooks: Annotated[list[HookState], Meta(description="State of every hook of this process.")] = []
    sinks: Annotated[list[SinkState], Meta(description="State of every sink of this process.")] = []
    captures_text: Annotated[
        bool,
        Meta(description="Whether this process puts the text of answers into events (FALSEOK_CAPTURE_TEXT)."),
    ] = False


class CollectorHookUnavailable(Attributes):
    """A hook does not fit this vLLM or switched itself off: the evidence it gives will be missing."""

    event_name: ClassVar[str] = "collector.hook_unavailable"

    hook: Annotated[str, Meta(description="Hook name, as in the hook table.")] = ""
    target: Annotated[str, Meta(description="module:qualified name of what would be wrapped.")] = ""
    reason: Annotated[str, Meta(description="missing_symbol, signature, or error.")] = ""
    detail: Annotated[str, Meta(description="What was missing or what went wrong.")] = ""
    vllm_version: Annotated[str, Meta(description="Version of the engine, where it is loaded.")] = ""


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
        KvInvalidBlocks,
        KvWriteStart,
        KvWriteEnd,
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
