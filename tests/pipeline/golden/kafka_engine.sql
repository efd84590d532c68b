-- Fed by ClickHouse's own Kafka table engine instead of by `falseok run --kafka`. Placeholders are filled in by
-- kafka_engine.py. Made from the far end to the near one: nothing is read before everything downstream is there.

CREATE TABLE IF NOT EXISTS kafka_lines ON CLUSTER `main`
(source String, byte_offset Int64, line String, trouble String)
ENGINE = Null;

CREATE TABLE IF NOT EXISTS kafka_judged ON CLUSTER `main`
(
    source String, byte_offset Int64, line String, reason String, message String,
    event Tuple(`v` Int64, `id` String, `ts` Int64, `mono` Int64, `boot` String, `seq` Int64, `name` String, `origin` String, `engine_id` String, `group` String, `rank` Int64, `host` String, `pid` Int64, `request_id` String, `external_id` String, `transfer_id` String, `trace_id` String, `span_id` String)
)
ENGINE = Null;

-- As strict as SQL can be: what ClickHouse's parser would take with defaults, wrapped or cut is refused here.
CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_judge ON CLUSTER `main` TO kafka_judged AS
WITH
    isValidJSON(line) AND JSONType(line) = 'Object' AS is_object,
    if(is_object, JSONExtractKeysAndValuesRaw(line), []) AS pairs,
    arrayMap(pair -> pair.1, pairs) AS names,
    arrayFilter(name -> NOT has(names, name), ['v', 'id', 'ts', 'mono', 'boot', 'seq', 'name', 'origin']) AS missing,
    arrayFilter(name -> NOT has(['v', 'id', 'ts', 'mono', 'boot', 'seq', 'name', 'origin', 'engine_id', 'group', 'rank', 'host', 'pid', 'request_id', 'external_id', 'transfer_id', 'trace_id', 'span_id', 'attrs'], name), names) AS unknown,
    arrayFilter(
        pair -> multiIf(
            has(['v', 'ts', 'mono', 'seq', 'rank', 'pid'], pair.1),
            NOT match(pair.2, '^[0-9-]+$') OR isNull(accurateCastOrNull(pair.2, 'Int64')),
            pair.1 = 'attrs', JSONType(line, 'attrs') != 'Object',
            JSONType(line, pair.1) != 'String'),
        pairs).1 AS mistyped,
    JSONExtract(if(is_object, line, '{}'), 'Tuple(`v` Int64, `id` String, `ts` Int64, `mono` Int64, `boot` String, `seq` Int64, `name` String, `origin` String, `engine_id` String, `group` String, `rank` Int64, `host` String, `pid` Int64, `request_id` String, `external_id` String, `transfer_id` String, `trace_id` String, `span_id` String)') AS extracted,
    arrayFilter(name -> name != '', [if(extracted.`v` < 1 OR extracted.`v` > 1, 'v', ''),
        if(extracted.`ts` < 0, 'ts', ''),
        if(extracted.`mono` < 0, 'mono', ''),
        if(extracted.`seq` < 0, 'seq', ''),
        if(extracted.`rank` < -1 OR extracted.`rank` > 2147483647, 'rank', ''),
        if(extracted.`pid` < 0 OR extracted.`pid` > 2147483647, 'pid', ''),
        if(lengthUTF8(extracted.`id`) < 3 OR lengthUTF8(extracted.`id`) > 256, 'id', ''),
        if(lengthUTF8(extracted.`boot`) < 1 OR lengthUTF8(extracted.`boot`) > 128, 'boot', ''),
        if(lengthUTF8(extracted.`engine_id`) > 256, 'engine_id', ''),
        if(lengthUTF8(extracted.`group`) > 256, 'group', ''),
        if(lengthUTF8(extracted.`host`) > 256, 'host', ''),
        if(lengthUTF8(extracted.`request_id`) > 1024, 'request_id', ''),
        if(lengthUTF8(extracted.`external_id`) > 1024, 'external_id', ''),
        if(lengthUTF8(extracted.`transfer_id`) > 1024, 'transfer_id', ''),
        if(NOT match(extracted.`name`, '^[a-z][a-z_]*([.][a-z][a-z_]*)+$'), 'name', ''),
        if(NOT match(extracted.`trace_id`, '^([0-9a-f]{32})?$'), 'trace_id', ''),
        if(NOT match(extracted.`span_id`, '^([0-9a-f]{16})?$'), 'span_id', ''),
        if(extracted.origin NOT IN ('hook', 'log', 'side_channel', 'metrics', 'probe'), 'origin', ''),
        if(lengthUTF8(extracted.name) > 64, 'name', '')]) AS out_of_range,
    multiIf(
        trouble != '', ('unreadable', trouble),
        length(line) > 1048576, ('too_long', 'the line is longer than 1048576 bytes'),
        position(line, char(0)) > 0, ('nul_byte', 'NUL byte'),
        NOT isValidUTF8(line), ('not_utf8', 'not UTF-8'),
        NOT is_object, ('not_json', if(line = '', 'the message is empty', 'no JSON object, or nested too deeply')),
        JSONExtractInt(line, 'v') > 1,
        ('unknown_version', 'contract version ' || JSONExtractRaw(line, 'v') || '; this release reads up to 1'),
        length(names) != length(arrayDistinct(names)), ('schema', 'a field occurs twice'),
        notEmpty(missing), ('schema', 'missing: ' || arrayStringConcat(missing, ', ')),
        has(mistyped, 'attrs'), ('attrs_not_object', 'attrs is not a JSON object'),
        notEmpty(unknown), ('schema', 'unknown: ' || substring(arrayStringConcat(unknown, ', '), 1, 400)),
        notEmpty(mistyped), ('schema', 'wrong type: ' || arrayStringConcat(mistyped, ', ')),
        notEmpty(out_of_range), ('schema', 'out of range: ' || arrayStringConcat(out_of_range, ', ')),
        extracted.id != extracted.boot || '-' || toString(extracted.seq), ('id_mismatch', 'id is not boot and seq'),
        JSONHas(line, 'attrs') AND isNull(accurateCastOrNull(JSONExtractRaw(line, 'attrs'), 'JSON')),
        ('refused_by_store', 'attrs cannot be stored: a path occurs twice'),
        ('', '')) AS judgement
SELECT
    source, byte_offset, line,
    judgement.1 AS reason, judgement.2 AS message, extracted AS event
FROM kafka_lines;

CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_events ON CLUSTER `main` TO events AS
SELECT
    event.`v` AS `v`, event.`id` AS `id`, event.`ts` AS `ts`, event.`mono` AS `mono`, event.`boot` AS `boot`, event.`seq` AS `seq`, event.`name` AS `name`, event.`origin` AS `origin`, event.`engine_id` AS `engine_id`, event.`group` AS `group`, if(JSONHas(line, 'rank'), event.rank, -1) AS rank, event.`host` AS `host`, event.`pid` AS `pid`, event.`request_id` AS `request_id`, event.`external_id` AS `external_id`, event.`transfer_id` AS `transfer_id`, event.`trace_id` AS `trace_id`, event.`span_id` AS `span_id`,
    JSONExtract(line, 'attrs', 'JSON') AS attrs
FROM kafka_judged
WHERE reason = '';

-- The same place and bytes refused for the same reason are the same dead letter as our own consumer's.
CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_dead_letters ON CLUSTER `main` TO dead_letters_stored AS
SELECT
    substring(
        lower(hex(SHA256(concat(
            reason, char(0), source, char(0), toString(byte_offset), char(0), line)))), 1, 32) AS id,
    toUnixTimestamp64Micro(now64(6)) AS recorded_at,
    reason, message, source, byte_offset,
    line AS original,
    length(line) AS original_bytes
FROM kafka_judged
WHERE reason != '';

-- A message holds many lines, so it is taken whole and cut here: no line is lost to a parser.
CREATE TABLE IF NOT EXISTS kafka_messages ON CLUSTER `main`
(message String)
ENGINE = Kafka
SETTINGS
    kafka_broker_list = 'kafka-1:9092,kafka-2:9092',
    kafka_topic_list = 'falseok.events.v1,falseok.engines.v1',
    kafka_group_name = 'falseok.clickhouse',
    kafka_format = 'RawBLOB',
    kafka_num_consumers = 4,
    kafka_max_block_size = 512,
    kafka_poll_max_batch_size = 512,
    kafka_flush_interval_ms = 1000,
    kafka_handle_error_mode = 'stream',
    input_format_try_infer_dates = 0,
    input_format_try_infer_datetimes = 0;

CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_split ON CLUSTER `main` TO kafka_lines AS
WITH
    if(_error = '', message, _raw_message) AS content,
    splitByChar('\n', content) AS cut,
    arrayCumSum(arrayMap(part -> length(part) + 1, cut)) AS ends,
    arrayJoin(arrayZip(cut, ends)) AS piece
SELECT
    concat(_topic, '[', toString(_partition), ']@', toString(_offset)) AS source,
    toInt64(piece.2) - length(piece.1) - 1 AS byte_offset,
    piece.1 AS line,
    _error AS trouble
FROM kafka_messages
WHERE trimBoth(line, ' \t\r\v\f') != '' OR content = '' OR trouble != '';

