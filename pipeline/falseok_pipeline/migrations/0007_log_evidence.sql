-- Requests known from log lines of engines that nobody instrumented. What is concluded from lines is at most `strong`,
-- unless an answer carries the request's own id.

CREATE TABLE IF NOT EXISTS log_requests_folded
(
    engine_id LowCardinality(String) CODEC(ZSTD(1)),
    request_id String CODEC(ZSTD(1)),
    joins SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1))
        COMMENT 'how answers were joined: id, count_and_time, count_mismatch',
    join_notes SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1)),
    local_blocks SimpleAggregateFunction(max, Int64) CODEC(ZSTD(1)) COMMENT 'blocks that were to be filled; -1: not said'
)
ENGINE = AggregatingMergeTree
ORDER BY (engine_id, request_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS log_requests_fold TO log_requests_folded AS
WITH
    ifNull(attrs.joined_by.:String, '') AS joined_by,
    ifNull(attrs.join_note.:String, '') AS join_note,
    arrayMap(x -> ifNull(x, ''), attrs.engine_request_ids.:`Array(Nullable(String))`) AS engine_request_ids
SELECT
    e.engine_id AS engine_id,
    arrayJoin(if(e.name = 'api.response' AND notEmpty(engine_request_ids), engine_request_ids, [e.request_id])) AS request_id,
    if(joined_by = '', [], [joined_by]) AS joins,
    if(join_note = '', [], [join_note]) AS join_notes,
    ifNull(attrs.local_blocks.:Int64, -1) AS local_blocks
FROM events AS e
WHERE e.origin = 'log' AND e.name IN ('kv.read.end', 'sched.resume', 'sched.finish', 'api.response')
  AND (e.request_id != '' OR e.name = 'api.response')

-- statement

CREATE OR REPLACE VIEW log_requests AS
SELECT
    toString(f.engine_id) AS engine_id,
    f.request_id AS request_id,
    groupUniqArrayArray(f.joins) AS joins,
    arraySort(groupUniqArrayArray(f.join_notes)) AS join_notes,
    -- A request that had every block already lost nothing with its transfer.
    max(f.local_blocks) != 0 AS blocks_expected
FROM log_requests_folded AS f
GROUP BY f.engine_id, f.request_id

-- statement

-- The facts a verdict rests on, one row per engine request, prefill legs included.
CREATE OR REPLACE VIEW request_facts AS
SELECT
    r.engine_id AS engine_id,
    r.request_id AS request_id,
    r.external_id AS external_id,
    r.transfer_id AS transfer_id,
    r.trace_id AS trace_id,
    r.first_seen AS first_seen,
    r.last_seen AS last_seen,
    r.leg AS leg,

    -- the two engines
    r.producer_engine_id AS prefill_engine_id,
    if(r.leg = 'decode', r.engine_id, '') AS decode_engine_id,
    if(pair.prefill_group != '', pair.prefill_group, r.producer_engine_id) AS prefill_group,
    if(r.leg != 'decode', '', if(answering.group != '', answering.group, r.engine_id)) AS decode_group,
    arrayLast(x -> true, r.responses) AS response,
    if(answering.served_model_name != '', answering.served_model_name, response.model) AS model,

    -- the answer
    notEmpty(r.responses) AS has_response,
    notEmpty(r.finishes) AS has_finish,
    arrayLast(x -> true, r.finishes) AS finish,
    if(has_finish, finish.output_tokens, response.completion_tokens) AS output_tokens,
    response.content_characters + response.reasoning_characters + response.tool_call_characters > 0
        OR response.completion_tokens > 0 AS has_text,
    multiIf(
        NOT has_response, 'unknown',
        response.http_status >= 400, 'no',
        response.http_status = 0, 'unknown',
        NOT response.stream, if(response.client_disconnected, 'no', 'yes'),
        has_text, 'yes',
        response.error_in_stream OR response.client_disconnected, 'no',
        'yes') AS delivered,
    response.http_status >= 500 OR response.error_in_stream OR finish.finish_reason = 'error'
        OR finish.status = 'FINISHED_ERROR' OR has(response.finish_reasons, 'error') AS ended_in_error,
    finish.finish_reason = 'abort' OR response.client_disconnected AS cancelled,

    -- the transfer
    r.admit AS admit,
    arrayFilter(e -> e.outcome = 'ok', r.read_ends) AS good_reads,
    -- A failure of a mere notification leaves the KV whole, and so does one after the bytes arrived,
    -- unless they still had to be converted.
    arrayFilter(e -> e.outcome = 'failed'
        AND e.failure_type NOT IN ('notification_failed', 'transfer_release_failed', 'handshake_setup_failed')
        AND NOT (e.failure_type = 'transfer_exception' AND e.stage IN ('telemetry', 'release')
            AND NOT e.post_processing_due),
        r.read_ends) AS failures,
    notEmpty(r.resumes) AS has_resume,
    arrayLast(x -> true, r.resumes) AS resume,
    has_resume AND resume.branch = 'resume' AND NOT resume.scheduler_marked_failed AS resumed_as_received,
    has_resume AND (resume.branch IN ('recompute', 'fail') OR resume.scheduler_marked_failed) AS resumed_as_failed,
    notEmpty(failures) OR resumed_as_failed AS transfer_failed,
    arrayLast(w -> w.external_tokens > 0, r.waits) AS wait,
    greatest(wait.external_tokens, resume.expected_tokens) AS expected_tokens,
    arraySum(arrayMap(e -> e.bytes, good_reads)) AS received_bytes,
    -- Nothing is read when decode has the whole prompt in its own prefix cache: it only tells prefill so.
    expected_tokens = 0 AND arrayExists(s -> s.mode = 'notify_only', r.read_starts) AS notified_only,
    if(notified_only, greatest(finish.cached_tokens, 1), wait.local_hit_tokens) AS local_hit_tokens,

    -- A preempted request computes its prompt again; only tokens from before that came from the remote KV.
    greatest(toInt64(length(r.preempts)), finish.preemptions) AS preemptions,
    arrayFirst(p -> p.ts >= resume.ts, r.preempts) AS preempt,
    multiIf(preemptions = 0, output_tokens, preempt.id != '', preempt.output_tokens, 0) AS tokens_from_remote_kv,
    finish.preemptions > length(r.preempts) AS preempt_unseen,
    -- After a failure: admitted again, with every token computed here but those the prefix cache or the failed
    -- receive really had.
    arrayFirst(a -> has_resume AND a.ts >= resume.ts AND a.id != r.admit.id, r.admits) AS admit_again,
    admit_again.id != '' OR (has_resume AND has_finish
        AND finish.cached_tokens <= greatest(resume.computed_tokens_after, wait.local_hit_tokens)) AS computed_again,

    -- What was offered against what was asked for
    notEmpty(t.offers) AS has_offer,
    arrayLast(x -> true, t.offers) AS offer,
    admit.offer_digest != '' AND offer.digest != '' AS digests_known,
    digests_known AND NOT has(arrayMap(o -> o.digest, t.offers), admit.offer_digest) AS digests_differ,
    admit.token_ids_hash != '' AND offer.token_ids_hash != '' AS hashes_known,
    admit.salt_id = offer.salt_id AS salts_equal,
    admit.tokens_hashed = offer.tokens_hashed AS lengths_equal,
    hashes_known AND salts_equal AND lengths_equal AS hashes_comparable,
    hashes_comparable AND admit.token_ids_hash != offer.token_ids_hash AS hashes_differ,
    has_offer AND offer.remote_num_tokens > 0 AND resumed_as_received
        AND offer.remote_num_tokens < resume.computed_tokens_after AS prompt_longer,
    has_offer AND admit.id != '' AND admit.lora != offer.lora AS lora_differs,

    -- What the configurations say
    pair.prefill_has_factors AND pair.decode_has_factors AS configurations_known,
    pair.differing_factors AS differing_factors,
    arrayLast(s -> s.remote_block_size > 0, r.read_starts) AS sized_read,
    if(sized_read.remote_block_size > 0, sized_read.remote_block_size, pair.prefill_block_size) AS prefill_block_size,
    if(sized_read.remote_block_size > 0, sized_read.local_block_size, pair.decode_block_size) AS decode_block_size,
    toInt64(length(arrayDistinct(arrayMap(e -> e.rank, good_reads)))) AS ranks_read,
    greatest(
        toInt64(pair.decode_ranks), toInt64(length(arrayDistinct(arrayMap(s -> s.rank, r.read_starts)))), toInt64(1)
    ) AS ranks_expected,

    -- What is wrong with the KV that decode went on with, whether or not a token came from it.
    multiIf(
        NOT (r.leg = 'decode' AND expected_tokens > 0 AND resumed_as_received), '',
        notEmpty(failures), 'a_missing_kv',
        digests_differ, 'b_other_blocks',
        hashes_differ OR prompt_longer OR lora_differs, 'f_other_prompt',
        '') AS wrong_kv,

    -- What only log lines tell: no hook saw this request.
    log.request_id != '' AND empty(r.admits) AND empty(r.waits) AS from_logs,
    multiIf(has(log.joins, 'id'), 'id', has(log.joins, 'count_and_time'), 'count_and_time',
        has(log.joins, 'count_mismatch'), 'count_mismatch', '') AS log_join,
    log.join_notes AS log_join_notes,
    -- vLLM 0.26 to 0.29 write a line when the scheduler is told of a failed receive. A request whose receive failed,
    -- for which there is no such line and that was answered all the same, went on with blocks that were never filled.
    from_logs AND r.leg = 'decode' AND notEmpty(failures) AND NOT has_resume AND log.blocks_expected
        AND match(answering.vllm_version, '^0\\.2[6-9](\\D|$)') AND ifNull(answering.hybrid_memory_allocator, true)
        AND log_join != '' AND response.http_status BETWEEN 200 AND 299 AND NOT ended_in_error AND NOT cancelled
        AS resumed_unseen,
    if(has_resume, resume.policy, if(from_logs, answering.kv_load_failure_policy, '')) AS policy,
    answering.vllm_version AS vllm_version,

    -- Tokens reached the client, or nothing says that they did not.
    multiIf(resumed_unseen, 'a_missing_kv', tokens_from_remote_kv >= 1 AND delivered != 'no', wrong_kv, '') AS corruption
FROM request_legs AS r
LEFT JOIN transfers AS t ON t.transfer_id = r.transfer_id
LEFT JOIN engines AS answering ON answering.engine_id = r.engine_id
LEFT JOIN log_requests AS log ON log.engine_id = r.engine_id AND log.request_id = r.request_id
LEFT JOIN engine_pairs AS pair ON pair.prefill_engine_id = r.producer_engine_id AND pair.decode_engine_id = r.engine_id

-- statement

CREATE OR REPLACE VIEW request_verdicts AS
WITH
    -- vLLM puts the blocks of a request that it takes for received into the prefix cache, whatever they hold.
    f.local_hit_tokens > 0 AND poisoned.since > 0 AND poisoned.since <= f.last_seen AS hits_suspect,
    arrayFilter(item -> item != '', [
        if(f.admit.id = '', 'sched.admit', ''),
        if(NOT f.has_offer, 'kv.offer', ''),
        if(f.expected_tokens = 0 AND NOT f.notified_only, 'sched.wait_remote', ''),
        if(f.expected_tokens > 0 AND f.ranks_read < f.ranks_expected, 'kv.read.end', ''),
        if(f.expected_tokens > 0 AND NOT f.has_resume, 'sched.resume', ''),
        if(NOT f.has_finish, 'sched.finish', ''),
        if(NOT f.has_response, 'api.response', ''),
        if(f.admit.id != '' AND f.has_offer AND NOT f.digests_known, 'offer_digest', ''),
        if(f.admit.id != '' AND f.has_offer AND NOT f.hashes_known, 'token_ids_hash', ''),
        if(f.hashes_known AND NOT f.salts_equal, 'same_salt_id', ''),
        if(f.hashes_known AND f.salts_equal AND NOT f.lengths_equal, 'comparable_prompt', ''),
        if(NOT f.configurations_known, 'engine.config', ''),
        if(notEmpty(f.differing_factors), 'equal_configuration', ''),
        if(f.prefill_block_size = 0 OR f.decode_block_size = 0, 'block_size', ''),
        if(f.prefill_block_size > 0 AND f.decode_block_size > 0 AND f.prefill_block_size != f.decode_block_size,
            'block_mapping', ''),
        if(hits_suspect, 'clean_prefix_cache', ''),
        if(f.digests_differ, 'offered_blocks', ''),
        if(f.hashes_differ OR f.prompt_longer OR f.lora_differs, 'offered_prompt', ''),
        if(f.transfer_failed AND f.preempt_unseen, 'sched.preempt', ''),
        if(f.resumed_as_failed AND NOT f.computed_again, 'second_admission', ''),
        if(f.transfer_failed, 'outcome_of_failed_read', ''),
        if(f.ended_in_error AND NOT f.transfer_failed, 'cause_of_error', ''),
        if(f.has_response AND f.response.http_status = 0, 'http_status', ''),
        if(f.expected_tokens > 0 AND f.preemptions > 0 AND f.tokens_from_remote_kv = 0, 'second_admission', '')
    ]) AS gaps,
    arrayMap(e -> e.id, f.failures) AS failure_ids,
    [f.admit.id, f.wait.id, f.resume.id, f.finish.id, f.response.id] AS course_ids
SELECT
    f.engine_id AS engine_id,
    f.request_id AS request_id,
    f.external_id AS external_id,
    f.transfer_id AS transfer_id,
    f.trace_id AS trace_id,
    f.leg AS leg,
    f.prefill_engine_id AS prefill_engine_id,
    f.decode_engine_id AS decode_engine_id,
    f.prefill_group AS prefill_group,
    f.decode_group AS decode_group,
    f.model AS model,
    multiIf(
        f.corruption != '', 'corrupt',
        f.leg != 'local' AND f.transfer_failed AND f.ended_in_error, 'failed_closed',
        f.cancelled AND (f.output_tokens = 0 OR f.delivered = 'no'), 'aborted',
        f.response.http_status >= 400 AND f.response.http_status < 500, 'rejected',
        f.leg = 'decode' AND f.resumed_as_failed AND f.resume.branch != 'fail' AND f.computed_again AND f.has_finish
            AND f.output_tokens > 0 AND NOT f.ended_in_error AND f.delivered != 'no' AND NOT hits_suspect, 'recovered',
        f.from_logs AND f.resumed_as_failed AND f.resume.branch = 'recompute' AND NOT f.ended_in_error
            AND f.response.http_status BETWEEN 200 AND 299, 'recovered',
        f.leg = 'local', 'local',
        f.leg = 'decode' AND empty(gaps), 'healthy',
        'unobserved') AS verdict,
    -- Log lines alone prove nothing, but an answer with text that carries the id of a failed request does.
    multiIf(
        verdict NOT IN ('corrupt', 'failed_closed', 'recovered'), 'none',
        NOT f.from_logs, 'proven',
        verdict = 'corrupt' AND f.log_join = 'count_mismatch', 'suspected',
        verdict = 'corrupt' AND f.log_join = 'id' AND f.has_text, 'proven',
        'strong') AS evidence,
    f.corruption AS reason,
    multiIf(
        f.corruption = 'a_missing_kv' AND f.resumed_unseen, concat(
            'the log says that the transfer failed (', first_failure_type, ') and not that vLLM ', f.vllm_version,
            ' told its scheduler; answered with HTTP ', toString(f.response.http_status), ', joined by ', multiIf(
                f.log_join = 'id', 'request id',
                f.log_join = 'count_and_time', 'count and time',
                'time only, the counts do not fit'),
            if(empty(f.log_join_notes) OR f.log_join = 'id', '', concat(' (', f.log_join_notes[1], ')'))),
        f.corruption = 'a_missing_kv', concat(
            'decode resumed with ', toString(f.expected_tokens), ' expected, ',
            if(empty(f.good_reads), '0 received', 'not all received'), ' tokens after ', first_failure_type,
            '; ', toString(f.tokens_from_remote_kv), ' output tokens came from it',
            if(f.has_response, concat(' and were answered with HTTP ', toString(f.response.http_status)), '')),
        f.corruption = 'b_other_blocks', concat(
            'decode asked for other blocks than prefill offered for this transfer (digest ',
            substring(f.admit.offer_digest, 1, 12), ' against ', substring(f.offer.digest, 1, 12), '); ',
            toString(f.expected_tokens), ' tokens came from them'),
        f.corruption = 'f_other_prompt', multiIf(
            f.hashes_differ, concat('the KV was computed for another prompt (hash of the first ',
                toString(f.offer.tokens_hashed), ' token ids ', substring(f.offer.token_ids_hash, 1, 12), ' against ',
                substring(f.admit.token_ids_hash, 1, 12), ')'),
            f.prompt_longer, concat('decode took ', toString(f.resume.computed_tokens_after),
                ' tokens as computed, prefill had computed ', toString(f.offer.remote_num_tokens)),
            concat('the KV was computed with LoRA "', f.offer.lora, '", the answer with "', f.admit.lora, '"')),
        verdict = 'failed_closed', concat(
            'the transfer failed (', if(empty(f.failures), 'marked by the scheduler', first_failure_type),
            ') and the request ended in an error',
            if(f.has_response, concat(' (HTTP ', toString(f.response.http_status),
                if(f.response.error_in_stream, ', error inside the stream', ''), ')'), '')),
        verdict = 'aborted', 'the client left or the request was cancelled before tokens reached it',
        verdict = 'rejected', concat('refused with HTTP ', toString(f.response.http_status)),
        verdict = 'recovered' AND f.from_logs, concat(
            'the log says that the transfer failed (', first_failure_type,
            ') and that decode computed the tokens itself'),
        verdict = 'recovered', concat(
            'the transfer failed (', if(empty(f.failures), 'marked by the scheduler', first_failure_type),
            '), decode computed the prompt itself and answered with ', toString(f.output_tokens), ' tokens'),
        verdict = 'local', 'no remote KV was asked for',
        verdict = 'healthy', if(f.expected_tokens > 0,
            concat(toString(f.expected_tokens), ' tokens expected from remote and received from the offered blocks'),
            'the whole prompt was in decode''s prefix cache; nothing had to be read'),
        concat('cannot be judged, missing: ', arrayStringConcat(missing, ', '))) AS explanation,
    multiIf(
        verdict != 'unobserved', [],
        f.leg = 'unknown', arrayConcat(['sched.admit'], arrayFilter(g -> g IN ('sched.finish', 'api.response'), gaps)),
        arrayDistinct(gaps)) AS missing,
    arrayFilter(id -> id != '', multiIf(
        verdict IN ('corrupt', 'failed_closed'), arrayConcat(
            failure_ids, course_ids, if(f.corruption IN ('b_other_blocks', 'f_other_prompt'), [f.offer.id], [])),
        verdict = 'recovered', arrayConcat(failure_ids, course_ids, [f.admit_again.id]),
        verdict = 'healthy', arrayConcat([f.offer.id], arrayMap(e -> e.id, f.good_reads), course_ids),
        [f.admit.id, f.finish.id, f.response.id])) AS evidence_events,
    f.response.http_status AS http_status,
    toBool(f.has_response) AS has_response,
    f.response.stream AS stream,
    f.response.error_in_stream AS error_in_stream,
    f.delivered AS delivered,
    f.output_tokens AS output_tokens,
    if(f.has_finish, f.finish.finish_reason, f.response.finish_reasons[1]) AS finish_reason,
    f.failures[1].failure_type AS first_failure_type,
    arraySort(arrayDistinct(arrayMap(e -> e.failure_type, f.failures))) AS failure_types,
    arraySort(arrayDistinct(arrayFilter(m -> m != '', arrayMap(e -> e.error_message, f.failures)))) AS failure_messages,
    f.expected_tokens AS expected_tokens,
    f.local_hit_tokens AS local_hit_tokens,
    greatest(f.finish.prompt_tokens, f.admit.prompt_tokens, f.response.prompt_tokens) AS prompt_tokens,
    f.received_bytes AS received_bytes,
    if(f.resumed_unseen, 'resume', f.resume.branch) AS resume_branch,
    f.resume.scheduler_marked_failed AS scheduler_marked_failed,
    f.policy AS policy,
    f.resume.waited_seconds AS waited_seconds,
    f.preemptions AS preemptions,
    f.first_seen AS first_seen,
    f.last_seen AS last_seen
FROM request_facts AS f
LEFT JOIN (
    SELECT engine_id, min(resume.ts) AS since FROM request_facts WHERE wrong_kv != '' GROUP BY engine_id
) AS poisoned ON poisoned.engine_id = f.engine_id
WHERE f.leg NOT IN ('prefill', 'cleanup')
