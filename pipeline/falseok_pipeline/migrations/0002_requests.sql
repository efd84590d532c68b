-- One row per engine request (engine_id, request_id), folded from its events in any order.
-- Each column keeps a small set of typed facts that carry their event id; a set does not care about order or repetition.
-- Facts start with ts and id, so that sorting a set sorts it in time.
-- Digests and hashes are kept to 64 bits (16 hex digits): where these differ the whole differs, and whole they are in `events`.

CREATE TABLE IF NOT EXISTS requests_folded
(
    engine_id LowCardinality(String) CODEC(ZSTD(1)),
    request_id String CODEC(ZSTD(1)),
    first_seen SimpleAggregateFunction(min, Int64) CODEC(Delta, ZSTD(1)),
    last_seen SimpleAggregateFunction(max, Int64) CODEC(Delta, ZSTD(1)),
    external_ids SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1)),
    transfer_ids SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1)),
    trace_ids SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1)),
    admits SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, leg String, remote_engine_id String, remote_request_id String, offer_digest String,
        remote_num_tokens Int64, prompt_tokens Int64, token_ids_hash String, tokens_hashed Int64, salt_id String,
        lora String))) CODEC(ZSTD(1)),
    waits SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, external_tokens Int64, local_hit_tokens Int64, prompt_tokens Int64, remote_num_tokens Int64,
        token_ids_hash String, tokens_hashed Int64, salt_id String))) CODEC(ZSTD(1)),
    read_starts SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, rank Int32, remote_engine_id String, mode String, offer_digest String,
        remote_block_counts Array(Int64), local_block_counts Array(Int64), handles_posted Int64, descriptors Int64,
        local_block_size Int64, remote_block_size Int64))) CODEC(ZSTD(1)),
    read_ends SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, rank Int32, remote_engine_id String, outcome String, failure_type String, stage String,
        nixl_state String, post_processing_due Bool, duration_seconds Float64, bytes Int64,
        error_class String, error_message String))) CODEC(ZSTD(1)),
    resumes SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, expected_tokens Int64, computed_tokens_before Int64, computed_tokens_after Int64,
        waited_seconds Float64, scheduler_marked_failed Bool, policy String, branch String))) CODEC(ZSTD(1)),
    preempts SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, output_tokens Int64))) CODEC(ZSTD(1)),
    finishes SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, leg String, status String, finish_reason String, output_tokens Int64, prompt_tokens Int64,
        cached_tokens Int64, preemptions Int64, nans_in_logits Int64, engine_seconds Float64))) CODEC(ZSTD(1)),
    offers SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String))) CODEC(ZSTD(1)),
    responses SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, endpoint String, http_status Int64, stream Bool, error_in_stream Bool, error_type String,
        finish_reasons Array(String), choices Int64, content_characters Int64, reasoning_characters Int64,
        tool_call_characters Int64, prompt_tokens Int64, completion_tokens Int64, time_to_first_token_seconds Float64,
        duration_seconds Float64, client_disconnected Bool, kv_transfer_in String, kv_transfer_out Bool, model String))) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (engine_id, request_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

-- A response belongs to every engine request that served it; one that reached no engine stands for itself.
CREATE MATERIALIZED VIEW IF NOT EXISTS requests_fold TO requests_folded AS
WITH
    ifNull(attrs.leg.:String, '') AS leg,
    ifNull(attrs.remote_engine_id.:String, '') AS remote_engine_id,
    ifNull(attrs.remote_request_id.:String, '') AS remote_request_id,
    substring(ifNull(attrs.offer_digest.:String, ''), 1, 16) AS offer_digest,
    ifNull(attrs.remote_num_tokens.:Int64, 0) AS remote_num_tokens,
    ifNull(attrs.prompt_tokens.:Int64, 0) AS prompt_tokens,
    ifNull(attrs.output_tokens.:Int64, 0) AS output_tokens,
    substring(ifNull(attrs.token_ids_hash.:String, ''), 1, 16) AS token_ids_hash,
    ifNull(attrs.tokens_hashed.:Int64, 0) AS tokens_hashed,
    ifNull(attrs.salt_id.:String, '') AS salt_id,
    coalesce(attrs.duration_seconds.:Float64, attrs.duration_seconds.:Int64, 0) AS duration_seconds,
    arrayMap(x -> ifNull(x, ''), attrs.engine_request_ids.:`Array(Nullable(String))`) AS engine_request_ids
SELECT
    e.engine_id AS engine_id,
    arrayJoin(multiIf(
        e.name != 'api.response', [e.request_id],
        notEmpty(engine_request_ids), engine_request_ids,
        e.request_id != '', [e.request_id],
        [concat('response:', e.id)])) AS request_id,
    e.ts AS first_seen,
    e.ts AS last_seen,
    if(e.external_id = '', [], [e.external_id]) AS external_ids,
    if(e.transfer_id = '', [], [e.transfer_id]) AS transfer_ids,
    if(e.trace_id = '', [], [e.trace_id]) AS trace_ids,
    if(e.name = 'sched.admit', [tuple(
        e.ts, e.id, leg, remote_engine_id, remote_request_id, offer_digest, remote_num_tokens, prompt_tokens,
        token_ids_hash, tokens_hashed, salt_id, ifNull(attrs.lora.:String, ''))], []) AS admits,
    if(e.name = 'sched.wait_remote', [tuple(
        e.ts, e.id, ifNull(attrs.external_tokens.:Int64, 0), ifNull(attrs.local_hit_tokens.:Int64, 0), prompt_tokens,
        remote_num_tokens, token_ids_hash, tokens_hashed, salt_id)], []) AS waits,
    if(e.name = 'kv.read.start', [tuple(
        e.ts, e.id, e.rank, remote_engine_id, ifNull(attrs.mode.:String, ''), offer_digest,
        arrayMap(x -> ifNull(x, 0), attrs.remote_block_counts.:`Array(Nullable(Int64))`),
        arrayMap(x -> ifNull(x, 0), attrs.local_block_counts.:`Array(Nullable(Int64))`),
        ifNull(attrs.handles_posted.:Int64, 0), ifNull(attrs.descriptors.:Int64, 0),
        ifNull(attrs.local_block_size.:Int64, 0), ifNull(attrs.remote_block_size.:Int64, 0))], []) AS read_starts,
    if(e.name = 'kv.read.end', [tuple(
        e.ts, e.id, e.rank, remote_engine_id, ifNull(attrs.outcome.:String, ''), ifNull(attrs.failure_type.:String, ''),
        ifNull(attrs.stage.:String, ''), ifNull(attrs.nixl_state.:String, ''),
        ifNull(attrs.post_processing_due.:Bool, false), duration_seconds, ifNull(attrs.bytes.:Int64, 0),
        ifNull(attrs.error_class.:String, ''), ifNull(attrs.error_message.:String, ''))], []) AS read_ends,
    if(e.name = 'sched.resume', [tuple(
        e.ts, e.id, ifNull(attrs.expected_tokens.:Int64, 0), ifNull(attrs.computed_tokens_before.:Int64, 0),
        ifNull(attrs.computed_tokens_after.:Int64, 0),
        coalesce(attrs.waited_seconds.:Float64, attrs.waited_seconds.:Int64, 0),
        ifNull(attrs.scheduler_marked_failed.:Bool, false), ifNull(attrs.policy.:String, ''),
        ifNull(attrs.branch.:String, ''))], []) AS resumes,
    if(e.name = 'sched.preempt', [tuple(e.ts, e.id, output_tokens)], []) AS preempts,
    if(e.name = 'sched.finish', [tuple(
        e.ts, e.id, leg, ifNull(attrs.status.:String, ''), ifNull(attrs.finish_reason.:String, ''), output_tokens,
        prompt_tokens, ifNull(attrs.cached_tokens.:Int64, 0), ifNull(attrs.preemptions.:Int64, 0),
        ifNull(attrs.nans_in_logits.:Int64, 0),
        coalesce(attrs.engine_seconds.:Float64, attrs.engine_seconds.:Int64, 0))], []) AS finishes,
    if(e.name = 'kv.offer', [tuple(e.ts, e.id)], []) AS offers,
    if(e.name = 'api.response', [tuple(
        e.ts, e.id, ifNull(attrs.endpoint.:String, ''), ifNull(attrs.http_status.:Int64, 0),
        ifNull(attrs.stream.:Bool, false), ifNull(attrs.error_in_stream.:Bool, false), ifNull(attrs.error_type.:String, ''),
        arrayMap(x -> ifNull(x, ''), attrs.finish_reasons.:`Array(Nullable(String))`), ifNull(attrs.choices.:Int64, 0),
        ifNull(attrs.content_characters.:Int64, 0), ifNull(attrs.reasoning_characters.:Int64, 0),
        ifNull(attrs.tool_call_characters.:Int64, 0), prompt_tokens, ifNull(attrs.completion_tokens.:Int64, 0),
        coalesce(attrs.time_to_first_token_seconds.:Float64, attrs.time_to_first_token_seconds.:Int64, 0),
        duration_seconds, ifNull(attrs.client_disconnected.:Bool, false), ifNull(attrs.kv_transfer_in.:String, ''),
        ifNull(attrs.kv_transfer_out.:Bool, false), ifNull(attrs.model.:String, ''))], []) AS responses
FROM events AS e
WHERE e.name IN ('sched.admit', 'sched.wait_remote', 'sched.preempt', 'sched.resume', 'sched.finish',
                 'kv.read.start', 'kv.read.end', 'kv.offer', 'api.response')
  AND (e.request_id != '' OR e.name = 'api.response')

-- statement

CREATE OR REPLACE VIEW requests AS
SELECT
    toString(engine_id) AS engine_id,
    request_id,
    first_seen,
    last_seen,
    arraySort(external_ids)[1] AS external_id,
    arraySort(transfer_ids) AS transfer_ids,
    arraySort(trace_ids)[1] AS trace_id,
    arraySort(admits) AS admits,
    arraySort(waits) AS waits,
    arraySort(read_starts) AS read_starts,
    arraySort(read_ends) AS read_ends,
    arraySort(resumes) AS resumes,
    arraySort(preempts) AS preempts,
    arraySort(finishes) AS finishes,
    arraySort(offers) AS offers,
    arraySort(responses) AS responses
FROM requests_folded FINAL
