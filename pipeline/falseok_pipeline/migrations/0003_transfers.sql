-- One row per hand-over of a request's KV blocks, named `<producer engine id>/<producer request id>` by both sides.
-- Digests and hashes are kept to 64 bits, as in `requests`.

CREATE TABLE IF NOT EXISTS transfers_folded
(
    transfer_id String CODEC(ZSTD(1)),
    first_seen SimpleAggregateFunction(min, Int64) CODEC(Delta, ZSTD(1)),
    last_seen SimpleAggregateFunction(max, Int64) CODEC(Delta, ZSTD(1)),
    offers SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, engine_id String, request_id String, digest String, block_counts Array(Int64),
        computed_tokens Int64, prompt_tokens Int64, output_tokens Int64, remote_num_tokens Int64,
        token_ids_hash String, tokens_hashed Int64, salt_id String, lora String))) CODEC(ZSTD(1)),
    lease_ends SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, rank Int32, reason String, notifications Int64, notifications_expected Int64))) CODEC(ZSTD(1)),
    releases SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, reason String, offered_seconds Float64))) CODEC(ZSTD(1)),
    notices SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, rank Int32, known Bool))) CODEC(ZSTD(1)),
    reads SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, engine_id String, request_id String, rank Int32, event String, mode String, outcome String,
        failure_type String, bytes Int64))) CODEC(ZSTD(1)),
    consumers SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(engine_id String, request_id String))) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY transfer_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS transfers_fold TO transfers_folded AS
WITH
    ifNull(attrs.reason.:String, '') AS reason
SELECT
    e.transfer_id AS transfer_id,
    e.ts AS first_seen,
    e.ts AS last_seen,
    if(e.name = 'kv.offer', [tuple(
        e.ts, e.id, toString(e.engine_id), e.request_id, substring(ifNull(attrs.digest.:String, ''), 1, 16),
        arrayMap(x -> ifNull(x, 0), attrs.block_counts.:`Array(Nullable(Int64))`),
        ifNull(attrs.computed_tokens.:Int64, 0), ifNull(attrs.prompt_tokens.:Int64, 0),
        ifNull(attrs.output_tokens.:Int64, 0), ifNull(attrs.remote_num_tokens.:Int64, 0),
        substring(ifNull(attrs.token_ids_hash.:String, ''), 1, 16), ifNull(attrs.tokens_hashed.:Int64, 0),
        ifNull(attrs.salt_id.:String, ''), ifNull(attrs.lora.:String, ''))],
        []) AS offers,
    if(e.name = 'kv.lease_end', [tuple(
        e.ts, e.id, e.rank, reason, ifNull(attrs.notifications.:Int64, 0),
        ifNull(attrs.notifications_expected.:Int64, 0))], []) AS lease_ends,
    if(e.name = 'kv.release', [tuple(
        e.ts, e.id, reason, coalesce(attrs.offered_seconds.:Float64, attrs.offered_seconds.:Int64, 0))], []) AS releases,
    if(e.name = 'kv.notice', [tuple(e.ts, e.id, e.rank, ifNull(attrs.known.:Bool, false))], []) AS notices,
    if(e.name IN ('kv.read.start', 'kv.read.end'), [tuple(
        e.ts, e.id, toString(e.engine_id), e.request_id, e.rank, toString(e.name), ifNull(attrs.mode.:String, ''),
        ifNull(attrs.outcome.:String, ''), ifNull(attrs.failure_type.:String, ''), ifNull(attrs.bytes.:Int64, 0))],
        []) AS reads,
    if(e.name IN ('kv.read.start', 'kv.read.end') OR (e.name = 'sched.admit' AND ifNull(attrs.leg.:String, '') = 'decode'),
        [tuple(toString(e.engine_id), e.request_id)], []) AS consumers
FROM events AS e
WHERE e.name IN ('kv.offer', 'kv.lease_end', 'kv.release', 'kv.notice', 'kv.read.start', 'kv.read.end', 'sched.admit')
  AND e.transfer_id != ''

-- statement

CREATE OR REPLACE VIEW transfers AS
SELECT
    transfer_id,
    first_seen,
    last_seen,
    arraySort(offers) AS offers,
    arraySort(lease_ends) AS lease_ends,
    arraySort(releases) AS releases,
    arraySort(notices) AS notices,
    arraySort(reads) AS reads,
    arraySort(consumers) AS consumers
FROM transfers_folded FINAL
