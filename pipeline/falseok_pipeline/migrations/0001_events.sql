-- Every event once, and everything that could not become one.
-- ReplacingMergeTree with the event id in the key: however often an event arrives, it is one row.
-- fsync_after_insert: offsets are committed after the insert, so an insert must survive a power cut.
-- min_bytes_for_wide_part: `attrs` has hundreds of paths, and a wide part would be as many files, each synced.

CREATE TABLE IF NOT EXISTS events
(
    v UInt16 CODEC(ZSTD(1)),
    id String CODEC(ZSTD(1)),
    ts Int64 CODEC(Delta, ZSTD(1)) COMMENT 'wall clock, microseconds since the epoch, UTC',
    mono Int64 CODEC(Delta, ZSTD(1)) COMMENT 'monotonic clock of the host, microseconds',
    boot LowCardinality(String) CODEC(ZSTD(1)),
    seq Int64 CODEC(Delta, ZSTD(1)),
    name LowCardinality(String) CODEC(ZSTD(1)),
    origin LowCardinality(String) CODEC(ZSTD(1)),
    engine_id LowCardinality(String) CODEC(ZSTD(1)),
    group LowCardinality(String) CODEC(ZSTD(1)),
    rank Int32 DEFAULT -1 CODEC(ZSTD(1)),
    host LowCardinality(String) CODEC(ZSTD(1)),
    pid Int32 CODEC(ZSTD(1)),
    request_id String CODEC(ZSTD(1)),
    external_id String CODEC(ZSTD(1)),
    transfer_id String CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    attrs JSON CODEC(ZSTD(1)),
    time DateTime64(6, 'UTC') ALIAS fromUnixTimestamp64Micro(ts, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (engine_id, request_id, ts, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE TABLE IF NOT EXISTS dead_letters_stored
(
    id String COMMENT 'digest of source, byte_offset and original: the same bad line is one row',
    recorded_at Int64 COMMENT 'microseconds since the epoch, UTC; the last time it was met',
    reason LowCardinality(String),
    message String,
    source String COMMENT 'segment path or topic and partition',
    byte_offset Int64,
    original String COMMENT 'the bytes as they were',
    original_bytes Int64
)
ENGINE = ReplacingMergeTree(recorded_at)
ORDER BY (source, byte_offset, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_bytes_for_wide_part = 268435456

-- statement

CREATE OR REPLACE VIEW dead_letters AS
SELECT
    id, recorded_at, toString(reason) AS reason, message, source, byte_offset, original,
    base64Encode(original) AS original_base64, original_bytes
FROM dead_letters_stored FINAL
