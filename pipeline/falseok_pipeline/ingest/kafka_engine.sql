-- Fed by ClickHouse's own Kafka table engine instead of by `falseok run --kafka`. Placeholders are filled in by
-- kafka_engine.py. Made from the far end to the near one: nothing is read before everything downstream is there.

CREATE TABLE IF NOT EXISTS kafka_lines${on_cluster}
(source String, byte_offset Int64, line String, trouble String)
ENGINE = Null

-- statement

CREATE TABLE IF NOT EXISTS kafka_judged${on_cluster}
(
    source String, byte_offset Int64, line String, reason String, message String,
    event Tuple(${tuple_types})
)
ENGINE = Null

-- statement

-- As strict as SQL can be: what ClickHouse's parser would take with defaults, wrapped or cut is refused here.
CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_judge${on_cluster} TO kafka_judged AS
WITH
    isValidJSON(line) AND JSONType(line) = 'Object' AS is_object,
    if(is_object, JSONExtractKeysAndValuesRaw(line), []) AS pairs,
    arrayMap(pair -> pair.1, pairs) AS names,
    arrayFilter(name -> NOT has(names, name), [${required}]) AS missing,
    arrayFilter(name -> NOT has([${known}], name), names) AS unknown,
    arrayFilter(
        pair -> multiIf(
            has([${integers}], pair.1),
            NOT match(pair.2, '^[0-9-]+$$') OR isNull(accurateCastOrNull(pair.2, 'Int64')),
            pair.1 = 'attrs', JSONType(line, 'attrs') != 'Object',
            JSONType(line, pair.1) != 'String'),
        pairs).1 AS mistyped,
    JSONExtract(if(is_object, line, '{}'), 'Tuple(${tuple_types})') AS extracted,
    arrayFilter(name -> name != '', [${ranges}]) AS out_of_range,
    multiIf(
        trouble != '', ('unreadable', trouble),
        length(line) > ${max_line_bytes}, ('too_long', 'the line is longer than ${max_line_bytes} bytes'),
        position(line, char(0)) > 0, ('nul_byte', 'NUL byte'),
        NOT isValidUTF8(line), ('not_utf8', 'not UTF-8'),
        NOT is_object, ('not_json', if(line = '', 'the message is empty', 'no JSON object, or nested too deeply')),
        JSONExtractInt(line, 'v') > ${version},
        ('unknown_version', 'contract version ' || JSONExtractRaw(line, 'v') || '; this release reads up to ${version}'),
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
FROM kafka_lines

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_events${on_cluster} TO events AS
SELECT
    ${event_columns},
    JSONExtract(line, 'attrs', 'JSON') AS attrs
FROM kafka_judged
WHERE reason = ''

-- statement

-- The same place and bytes refused for the same reason are the same dead letter as our own consumer's.
CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_dead_letters${on_cluster} TO dead_letters_stored AS
SELECT
    substring(
        lower(hex(SHA256(concat(
            reason, char(0), source, char(0), toString(byte_offset), char(0), line)))), 1, 32) AS id,
    toUnixTimestamp64Micro(now64(6)) AS recorded_at,
    reason, message, source, byte_offset,
    line AS original,
    length(line) AS original_bytes
FROM kafka_judged
WHERE reason != ''

-- statement

-- A message holds many lines, so it is taken whole and cut here: no line is lost to a parser.
CREATE TABLE IF NOT EXISTS kafka_messages${on_cluster}
(message String)
ENGINE = Kafka
SETTINGS
    kafka_broker_list = ${brokers},
    kafka_topic_list = ${topics},
    kafka_group_name = ${group},
    kafka_format = 'RawBLOB',
    kafka_num_consumers = ${consumers},
    kafka_max_block_size = ${block_messages},
    kafka_poll_max_batch_size = ${block_messages},
    kafka_flush_interval_ms = 1000,
    kafka_handle_error_mode = 'stream',
    input_format_try_infer_dates = 0,
    input_format_try_infer_datetimes = 0

-- statement

CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_split${on_cluster} TO kafka_lines AS
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
WHERE trimBoth(line, ' \t\r\v\f') != '' OR content = '' OR trouble != ''
