-- One row an answer: choices (`n`), lists of prompts and rounds of tool calls are several engine requests, and the worst
-- of them judges the answer. KV that came by push or by another connector is not judged as if it had been pulled.

CREATE TABLE IF NOT EXISTS request_ways_folded
(
    engine_id LowCardinality(String) CODEC(ZSTD(1)),
    request_id String CODEC(ZSTD(1)),
    modes SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1)) COMMENT 'push, other',
    connectors SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1))
        COMMENT 'classes that moved KV for the request, NIXL pull left out'
)
ENGINE = AggregatingMergeTree
ORDER BY (engine_id, request_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS request_ways_fold TO request_ways_folded AS
WITH
    ifNull(attrs.mode.:String, '') AS mode,
    ifNull(attrs.connector.:String, '') AS connector
SELECT
    e.engine_id AS engine_id,
    e.request_id AS request_id,
    if(mode IN ('push', 'other'), [mode], []) AS modes,
    if(connector = '', [], [connector]) AS connectors
FROM events AS e
WHERE e.name IN ('kv.read.start', 'kv.read.end', 'sched.wait_remote') AND e.request_id != ''
  AND (mode IN ('push', 'other') OR connector != '')

-- statement

CREATE OR REPLACE VIEW request_ways AS
SELECT
    toString(f.engine_id) AS engine_id,
    f.request_id AS request_id,
    groupUniqArrayArray(f.modes) AS modes,
    groupUniqArrayArray(f.connectors) AS connectors
FROM request_ways_folded AS f
GROUP BY f.engine_id, f.request_id

-- statement

-- Which leg of a transfer each engine request was. The leg is a property of the request, not of the engine:
-- an engine may serve both kinds, and a decode leg may offer blocks as well.
CREATE OR REPLACE VIEW request_legs AS
SELECT
    *,
    multiIf(
        -- vLLM's own request that only tells prefill to let go; nobody is answered.
        arrayExists(a -> a.leg = 'cleanup', admits) OR arrayExists(f -> f.leg = 'cleanup', finishes), 'cleanup',
        arrayExists(a -> a.leg = 'prefill', admits), 'prefill',
        arrayExists(x -> x.kv_transfer_in = 'remote_decode', responses), 'prefill',
        arrayExists(a -> a.leg = 'decode', admits), 'decode',
        arrayExists(x -> x.kv_transfer_in = 'remote_prefill', responses), 'decode',
        arrayExists(a -> a.leg = 'local', admits), 'local',
        -- A read says more than a finish whose admission nobody saw.
        notEmpty(read_starts) OR notEmpty(read_ends) OR notEmpty(resumes), 'decode',
        arrayExists(f -> f.leg != '', finishes), arrayFirst(f -> f.leg != '', finishes).leg,
        arrayExists(w -> w.external_tokens > 0, waits), 'decode',
        notEmpty(offers), 'prefill',
        'unknown') AS leg,
    arrayFirst(a -> a.leg = 'decode', admits) AS admit,
    if(leg != 'decode', '', multiIf(
        admit.remote_engine_id != '', admit.remote_engine_id,
        arrayExists(s -> s.remote_engine_id != '', read_starts),
            arrayFirst(s -> s.remote_engine_id != '', read_starts).remote_engine_id,
        arrayFirst(e -> e.remote_engine_id != '', read_ends).remote_engine_id)) AS producer_engine_id,
    -- A decode leg that offers blocks itself has two transfers; the one it read is the one that is not its own.
    arrayFirst(t -> leg != 'decode' OR t != concat(engine_id, '/', request_id), transfer_ids) AS transfer_id
FROM requests

-- statement

-- One verdict an engine request, those of prefill legs left out.
CREATE OR REPLACE VIEW engine_request_verdicts AS
WITH
    -- vLLM puts the blocks of a request that it takes for received into the prefix cache, whatever they hold.
    f.local_hit_tokens > 0 AND poisoned.since > 0 AND poisoned.since <= f.last_seen AS hits_suspect,
    -- Blocks that prefill had let go of while they were read may hold anything by then. A lease that ended because they were
    -- read ended through this very read, if nobody else read: its notice may overtake the report of the read's start.
    arrayFilter(x -> x.engine_id = f.engine_id AND x.request_id = f.request_id, t.reads) AS own_reads,
    arrayMap(x -> x.ts, arrayFilter(x -> x.event = 'kv.read.start' AND x.mode = 'read', own_reads)) AS read_times,
    arrayMin(arrayMap(x -> x.ts, t.releases)) AS released_at,
    notEmpty(read_times) AND (
        arrayExists(x -> x.reason = 'expired' AND x.ts <= arrayMax(arrayMap(r -> r.ts, own_reads)), t.lease_ends)
        OR (notEmpty(t.releases) AND arrayMax(read_times) >= released_at AND arrayExists(
            r -> r.mode = 'read' AND (r.engine_id, r.request_id) != (f.engine_id, f.request_id), t.reads))
        OR (notEmpty(t.releases) AND empty(t.lease_ends) AND arrayMax(read_times) >= released_at + 1000000)
    ) AS read_after_release,
    -- The comparisons above are made for NIXL pull; KV that came another way was not looked at.
    concat(
        arrayStringConcat(arraySort(m.modes), ', '),
        if(empty(m.connectors), '', concat(' (', arrayStringConcat(arraySort(m.connectors), ', '), ')'))) AS other_ways,
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
        if(read_after_release, 'valid_lease', ''),
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
        other_ways != '', 'unobserved',
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
    multiIf(f.corruption != '', f.corruption, verdict = 'unobserved' AND other_ways != '', 'mode', '') AS reason,
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
        reason = 'mode', concat('the KV came by another way than NIXL pull: ', other_ways,
            ', where what was taken cannot be compared with what was offered'),
        verdict = 'healthy', if(f.expected_tokens > 0,
            concat(toString(f.expected_tokens), ' tokens expected from remote and received from the offered blocks'),
            'the whole prompt was in decode''s prefix cache; nothing had to be read'),
        concat('cannot be judged, missing: ', arrayStringConcat(missing, ', '))) AS explanation,
    multiIf(
        verdict != 'unobserved', [],
        reason = 'mode', ['comparable_mode'],
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
    f.last_seen AS last_seen,
    -- Engine requests of one answer: choices of one prompt, several prompts, rounds of tool calls.
    if(f.has_response, f.response.id, replaceRegexpOne(f.request_id, '^\\d+_(chatcmpl-|cmpl-)', '\\1')) AS answer_id,
    -- The order in which one verdict wins over another.
    multiIf(
        verdict = 'corrupt' AND evidence = 'proven', 1,
        verdict = 'corrupt' AND evidence = 'strong', 2,
        verdict = 'failed_closed', 3,
        verdict = 'aborted', 4,
        verdict = 'rejected', 5,
        verdict = 'corrupt', 6,
        verdict = 'recovered', 7,
        verdict = 'local', 8,
        verdict = 'unobserved', 9,
        10) AS precedence
FROM request_facts AS f
LEFT JOIN transfers AS t ON t.transfer_id = f.transfer_id AND f.transfer_id != ''
LEFT JOIN request_ways AS m ON m.engine_id = f.engine_id AND m.request_id = f.request_id
LEFT JOIN (
    SELECT engine_id, min(resume.ts) AS since FROM request_facts WHERE wrong_kv != '' GROUP BY engine_id
) AS poisoned ON poisoned.engine_id = f.engine_id
WHERE f.leg NOT IN ('prefill', 'cleanup')

-- statement

-- One verdict an answer: the row of the engine request whose verdict wins, and how many there are.
CREATE OR REPLACE VIEW request_verdicts AS
SELECT
    * EXCEPT (answer_id, precedence),
    toInt64(count() OVER (PARTITION BY engine_id, answer_id)) AS children,
    arraySort(groupArray(request_id) OVER (PARTITION BY engine_id, answer_id)) AS engine_request_ids
FROM engine_request_verdicts
ORDER BY precedence, request_id
LIMIT 1 BY engine_id, answer_id
