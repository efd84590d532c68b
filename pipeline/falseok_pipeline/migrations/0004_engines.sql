-- What each engine is configured as, which engines met, how their handshakes went, and how each collector is doing.

CREATE TABLE IF NOT EXISTS engines_folded
(
    engine_id LowCardinality(String) CODEC(ZSTD(1)),
    first_seen SimpleAggregateFunction(min, Int64) CODEC(Delta, ZSTD(1)),
    last_seen SimpleAggregateFunction(max, Int64) CODEC(Delta, ZSTD(1)),
    latest_group SimpleAggregateFunction(max, Tuple(ts Int64, id String, group String)) CODEC(ZSTD(1)),
    hosts SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1)),
    configs SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, process String, group String, attrs String))) CODEC(ZSTD(1)),
    exits SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, process String, reason String, last_request_id String))) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY engine_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS engines_fold TO engines_folded AS
SELECT
    e.engine_id AS engine_id,
    min(e.ts) AS first_seen,
    max(e.ts) AS last_seen,
    max(tuple(e.ts, e.id, toString(e.group))) AS latest_group,
    groupUniqArrayIf(toString(e.host), e.host != '') AS hosts,
    groupUniqArrayArray(if(e.name = 'engine.config', [tuple(
        e.ts, e.id, ifNull(attrs.process.:String, ''), toString(e.group), toJSONString(attrs))], [])) AS configs,
    groupUniqArrayArray(if(e.name = 'engine.exit', [tuple(
        e.ts, e.id, ifNull(attrs.process.:String, ''), ifNull(attrs.reason.:String, ''),
        ifNull(attrs.last_request_id.:String, ''))], [])) AS exits
FROM events AS e
WHERE e.engine_id != ''
GROUP BY e.engine_id

-- statement

-- Every process of an engine reports what it knows. The worker is asked first, the latest report first:
-- a field is what the first report that has it says.
CREATE OR REPLACE VIEW engines AS
WITH
    arrayReverseSort(c -> (c.process = 'worker', c.ts, c.id), configs) AS reports,
    arrayMap(c -> c.attrs, reports) AS documents,
    (field -> arrayFirst(v -> v != '', arrayMap(d -> JSONExtractString(d, field), documents))) AS text,
    (field -> arrayFirst(v -> v != 0, arrayMap(d -> JSONExtractInt(d, field), documents))) AS number,
    (field -> arrayFirst(v -> NOT v IN ('', '{}', '[]', 'null'), arrayMap(d -> JSONExtractRaw(d, field), documents))) AS raw,
    (field -> multiIf(raw(field) = 'true', true, raw(field) = 'false', false, NULL)) AS flag,
    (pairs -> mapFromArrays(
        arrayMap(p -> p.1, pairs),
        arrayMap(p -> if(startsWith(p.2, '"'), JSONExtractString(p.2), p.2), pairs))) AS dictionary
SELECT
    toString(engine_id) AS engine_id,
    multiIf(arrayFirst(c -> c.group != '', reports).group != '', arrayFirst(c -> c.group != '', reports).group,
            latest_group.group != '', latest_group.group, engine_id) AS group,
    multiIf(kv_role = 'kv_producer', 'prefill', kv_role = 'kv_consumer', 'decode', kv_role = 'kv_both', 'both', '') AS role,
    text('role') AS kv_role,
    text('kv_connector') AS kv_connector,
    text('model') AS model,
    arrayFirst(v -> v != '', [JSONExtractString(raw('served_model_names'), 1), text('model')]) AS served_model_name,
    dictionary(arraySort(JSONExtractKeysAndValuesRaw(raw('versions')))) AS versions,
    versions['vllm'] AS vllm_version,
    text('dtype') AS dtype,
    text('kv_cache_dtype') AS kv_cache_dtype,
    text('quantization') AS quantization,
    text('compatibility_hash') AS compatibility_hash,
    dictionary(arraySort(JSONExtractKeysAndValuesRaw(raw('factors')))) AS factors,
    dictionary(arraySort(JSONExtractKeysAndValuesRaw(raw('factors_compared')))) AS factors_compared,
    flag('enforce_handshake_compat') AS enforce_handshake_compat,
    flag('reports_failed_receives') AS reports_failed_receives,
    flag('hybrid_memory_allocator') AS hybrid_memory_allocator,
    flag('prefix_caching') AS prefix_caching,
    flag('enforce_eager') AS enforce_eager,
    text('kv_load_failure_policy') AS kv_load_failure_policy,
    number('block_size') AS block_size,
    number('physical_blocks_per_logical_block') AS physical_blocks_per_logical_block,
    number('region_count') AS region_count,
    number('tensor_parallel_size') AS tensor_parallel_size,
    number('pipeline_parallel_size') AS pipeline_parallel_size,
    number('data_parallel_size') AS data_parallel_size,
    number('max_model_len') AS max_model_len,
    JSONExtractFloat(concat('[', if(raw('kv_lease_seconds') = '', '0', raw('kv_lease_seconds')), ']'), 1) AS kv_lease_seconds,
    text('kv_cache_layout') AS kv_cache_layout,
    text('attention_backend') AS attention_backend,
    text('model_runner') AS model_runner,
    text('side_channel') AS side_channel,
    text('chat_template_hash') AS chat_template_hash,
    text('model_revision') AS model_revision,
    text('reasoning_parser') AS reasoning_parser,
    JSONExtract(raw('region_lengths_bytes'), 'Array(Int64)') AS region_lengths_bytes,
    raw('kv_transfer_config') AS kv_transfer_config,
    raw('speculative_config') AS speculative_config,
    raw('kv_groups') AS kv_groups,
    dictionary(arraySort(JSONExtractKeysAndValuesRaw(raw('environment')))) AS environment,
    arraySort(hosts) AS hosts,
    arraySort(arrayDistinct(arrayMap(c -> c.process, configs))) AS processes,
    arrayMap(c -> c.id, arraySort(configs)) AS config_events,
    toBool(notEmpty(configs)) AS has_config,
    first_seen,
    last_seen
FROM (
    -- Not FINAL: with it a subcolumn of a tuple (latest_group.group) is read from the parts without being aggregated.
    SELECT
        f.engine_id AS engine_id,
        min(f.first_seen) AS first_seen,
        max(f.last_seen) AS last_seen,
        max(f.latest_group) AS latest_group,
        groupUniqArrayArray(f.hosts) AS hosts,
        groupUniqArrayArray(f.configs) AS configs
    FROM engines_folded AS f
    GROUP BY f.engine_id
)

-- statement

CREATE TABLE IF NOT EXISTS engine_pairs_folded
(
    prefill_engine_id LowCardinality(String) CODEC(ZSTD(1)),
    decode_engine_id LowCardinality(String) CODEC(ZSTD(1)),
    first_seen SimpleAggregateFunction(min, Int64) CODEC(Delta, ZSTD(1)),
    last_seen SimpleAggregateFunction(max, Int64) CODEC(Delta, ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (prefill_engine_id, decode_engine_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS engine_pairs_fold TO engine_pairs_folded AS
SELECT
    ifNull(attrs.remote_engine_id.:String, '') AS prefill_engine_id,
    e.engine_id AS decode_engine_id,
    min(e.ts) AS first_seen,
    max(e.ts) AS last_seen
FROM events AS e
WHERE e.name IN ('kv.handshake', 'kv.read.start', 'kv.read.end', 'sched.admit')
  AND e.engine_id != '' AND ifNull(attrs.remote_engine_id.:String, '') != ''
GROUP BY prefill_engine_id, e.engine_id

-- statement

CREATE TABLE IF NOT EXISTS handshakes_folded
(
    engine_id LowCardinality(String) CODEC(ZSTD(1)),
    ts Int64 CODEC(Delta, ZSTD(1)),
    id String CODEC(ZSTD(1)),
    group LowCardinality(String) CODEC(ZSTD(1)),
    rank Int32 CODEC(ZSTD(1)),
    remote_engine_id String CODEC(ZSTD(1)),
    remote_host String CODEC(ZSTD(1)),
    remote_port Int64 CODEC(ZSTD(1)),
    outcome LowCardinality(String) CODEC(ZSTD(1)),
    failure_type LowCardinality(String) CODEC(ZSTD(1)),
    local_hash String CODEC(ZSTD(1)),
    remote_hash String CODEC(ZSTD(1)),
    enforce_handshake_compat Nullable(Bool) CODEC(ZSTD(1)),
    exception_class LowCardinality(String) CODEC(ZSTD(1)),
    exception_message String CODEC(ZSTD(1)),
    duration_seconds Float64 CODEC(ZSTD(1)),
    clock_offset_seconds Nullable(Float64) CODEC(ZSTD(1)),
    clock_offset_error_seconds Nullable(Float64) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (engine_id, ts, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS handshakes_fold TO handshakes_folded AS
SELECT
    e.engine_id AS engine_id,
    e.ts AS ts,
    e.id AS id,
    e.group AS group,
    e.rank AS rank,
    ifNull(attrs.remote_engine_id.:String, '') AS remote_engine_id,
    ifNull(attrs.remote_host.:String, '') AS remote_host,
    ifNull(attrs.remote_port.:Int64, 0) AS remote_port,
    ifNull(attrs.outcome.:String, '') AS outcome,
    ifNull(attrs.failure_type.:String, '') AS failure_type,
    ifNull(attrs.local_hash.:String, '') AS local_hash,
    ifNull(attrs.remote_hash.:String, '') AS remote_hash,
    attrs.enforce_handshake_compat.:Bool AS enforce_handshake_compat,
    ifNull(attrs.exception_class.:String, '') AS exception_class,
    ifNull(attrs.exception_message.:String, '') AS exception_message,
    coalesce(attrs.duration_seconds.:Float64, attrs.duration_seconds.:Int64, 0) AS duration_seconds,
    coalesce(attrs.clock_offset_seconds.:Float64, attrs.clock_offset_seconds.:Int64) AS clock_offset_seconds,
    coalesce(attrs.clock_offset_error_seconds.:Float64, attrs.clock_offset_error_seconds.:Int64) AS clock_offset_error_seconds
FROM events AS e
WHERE e.name = 'kv.handshake'

-- statement

CREATE OR REPLACE VIEW handshakes AS
SELECT
    id, ts, toString(engine_id) AS engine_id, toString(group) AS group, rank, remote_engine_id, remote_host, remote_port,
    toString(outcome) AS outcome, toString(failure_type) AS failure_type, local_hash, remote_hash,
    enforce_handshake_compat, toString(exception_class) AS exception_class, exception_message, duration_seconds,
    clock_offset_seconds, clock_offset_error_seconds
FROM handshakes_folded FINAL

-- statement

CREATE OR REPLACE VIEW handshake_pairs AS
SELECT
    remote_engine_id AS prefill_engine_id,
    engine_id AS decode_engine_id,
    count() AS attempts,
    countIf(outcome = 'failed') AS failures,
    arraySort(groupUniqArrayIf(failure_type, failure_type != '')) AS failure_types,
    arraySort(groupUniqArrayIf(local_hash, local_hash != '')) AS local_hashes,
    arraySort(groupUniqArrayIf(remote_hash, remote_hash != '')) AS remote_hashes,
    arraySort(groupUniqArrayIf(exception_class, exception_class != '')) AS exception_classes,
    arraySlice(arraySort(groupUniqArrayIf(exception_message, exception_message != '')), 1, 20) AS exception_messages,
    min(ts) AS first_seen,
    max(ts) AS last_seen,
    arraySlice(arraySort(groupUniqArray(id)), 1, 100) AS evidence_events
FROM handshakes
GROUP BY prefill_engine_id, decode_engine_id

-- statement

CREATE TABLE IF NOT EXISTS collectors_folded
(
    boot LowCardinality(String) CODEC(ZSTD(1)),
    first_seen SimpleAggregateFunction(min, Int64) CODEC(Delta, ZSTD(1)),
    last_seen SimpleAggregateFunction(max, Int64) CODEC(Delta, ZSTD(1)),
    latest SimpleAggregateFunction(max, Tuple(ts Int64, id String, engine_id String, host String, pid Int32)) CODEC(ZSTD(1)),
    sequence_numbers AggregateFunction(groupBitmap, UInt64) CODEC(ZSTD(1)) COMMENT 'a set of seq: its gaps are lost events',
    heartbeat SimpleAggregateFunction(max, Tuple(ts Int64, id String, attrs String)) CODEC(ZSTD(1)),
    unavailable_hooks SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(
        ts Int64, id String, hook String, target String, reason String, detail String, vllm_version String))) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY boot
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS collectors_fold TO collectors_folded AS
SELECT
    e.boot AS boot,
    min(e.ts) AS first_seen,
    max(e.ts) AS last_seen,
    max(tuple(e.ts, e.id, toString(e.engine_id), toString(e.host), e.pid)) AS latest,
    groupBitmapState(toUInt64(e.seq)) AS sequence_numbers,
    max(if(e.name = 'collector.heartbeat', tuple(e.ts, e.id, toJSONString(attrs)), tuple(toInt64(0), '', ''))) AS heartbeat,
    groupUniqArrayArray(if(e.name = 'collector.hook_unavailable', [tuple(
        e.ts, e.id, ifNull(attrs.hook.:String, ''), ifNull(attrs.target.:String, ''), ifNull(attrs.reason.:String, ''),
        ifNull(attrs.detail.:String, ''), ifNull(attrs.vllm_version.:String, ''))], [])) AS unavailable_hooks
FROM events AS e
GROUP BY e.boot

-- statement

CREATE OR REPLACE VIEW collectors AS
SELECT
    toString(boot) AS boot,
    latest.engine_id AS engine_id,
    latest.host AS host,
    latest.pid AS pid,
    JSONExtractString(heartbeat.attrs, 'process') AS process,
    toInt64(bitmapCardinality(sequence_numbers)) AS events_seen,
    toInt64(bitmapMax(sequence_numbers)) AS max_seq,
    -- Collectors number from 1; a source that numbers from 0 has one event more than its highest number.
    max_seq + bitmapContains(sequence_numbers, toUInt64(0)) - events_seen AS lost_events,
    JSONExtractInt(heartbeat.attrs, 'events_emitted') AS events_emitted,
    JSONExtractInt(heartbeat.attrs, 'events_dropped') AS events_dropped,
    JSONExtractInt(heartbeat.attrs, 'events_spilled') AS events_spilled,
    JSONExtractInt(heartbeat.attrs, 'segments_dropped') AS segments_dropped,
    JSONExtractInt(heartbeat.attrs, 'sink_errors') AS sink_errors,
    JSONExtractInt(heartbeat.attrs, 'queue_depth') AS queue_depth,
    heartbeat.ts AS last_heartbeat,
    JSONExtract(heartbeat.attrs, 'hooks', 'Array(Tuple(name String, state String, calls Int64, errors Int64))') AS hooks,
    arraySort(unavailable_hooks) AS unavailable_hooks,
    first_seen,
    last_seen
FROM (
    -- Not FINAL, for the same reason as in `engines`.
    SELECT
        f.boot AS boot,
        min(f.first_seen) AS first_seen,
        max(f.last_seen) AS last_seen,
        max(f.latest) AS latest,
        groupBitmapMergeState(f.sequence_numbers) AS sequence_numbers,
        max(f.heartbeat) AS heartbeat,
        groupUniqArrayArray(f.unavailable_hooks) AS unavailable_hooks
    FROM collectors_folded AS f
    GROUP BY f.boot
)
