-- What clients were answered, one row an `api.response`, with everything that the set of facts in `requests` leaves out.
-- A view over `events`: a response is looked at by its request or by time, and its fields stay where they are.

CREATE OR REPLACE VIEW responses AS
SELECT
    e.id AS id,
    e.ts AS ts,
    toString(e.origin) AS origin,
    toString(e.engine_id) AS engine_id,
    toString(e.group) AS group,
    e.request_id AS request_id,
    e.external_id AS external_id,
    e.trace_id AS trace_id,
    ifNull(e.attrs.observer.:String, '') AS observer,
    arrayMap(x -> ifNull(x, ''), e.attrs.engine_request_ids.:`Array(Nullable(String))`) AS engine_request_ids,
    ifNull(e.attrs.endpoint.:String, '') AS endpoint,
    ifNull(e.attrs.http_status.:Int64, 0) AS http_status,
    ifNull(e.attrs.model.:String, '') AS model,
    ifNull(e.attrs.stream.:Bool, false) AS stream,
    e.attrs.stream_complete.:Bool AS stream_complete,
    ifNull(e.attrs.error_in_stream.:Bool, false) AS error_in_stream,
    ifNull(e.attrs.error_type.:String, '') AS error_type,
    ifNull(e.attrs.client_disconnected.:Bool, false) AS client_disconnected,
    arrayMap(x -> ifNull(x, ''), e.attrs.finish_reasons.:`Array(Nullable(String))`) AS finish_reasons,
    arrayMap(x -> ifNull(x, ''), e.attrs.output_kinds.:`Array(Nullable(String))`) AS output_kinds,
    ifNull(e.attrs.choices.:Int64, 0) AS choices,
    ifNull(e.attrs.content_characters.:Int64, 0) AS content_characters,
    ifNull(e.attrs.reasoning_characters.:Int64, 0) AS reasoning_characters,
    ifNull(e.attrs.tool_call_characters.:Int64, 0) AS tool_call_characters,
    ifNull(e.attrs.tool_calls.:Int64, 0) AS tool_calls,
    ifNull(e.attrs.prompt_tokens.:Int64, 0) AS prompt_tokens,
    ifNull(e.attrs.completion_tokens.:Int64, 0) AS completion_tokens,
    ifNull(e.attrs.reasoning_tokens.:Int64, 0) AS reasoning_tokens,
    ifNull(e.attrs.cached_tokens.:Int64, 0) AS cached_tokens,
    ifNull(e.attrs.chunks.:Int64, 0) AS chunks,
    coalesce(e.attrs.time_to_first_token_seconds.:Float64, e.attrs.time_to_first_token_seconds.:Int64, 0)
        AS time_to_first_token_seconds,
    coalesce(e.attrs.duration_seconds.:Float64, e.attrs.duration_seconds.:Int64, 0) AS duration_seconds,
    ifNull(e.attrs.requested_thinking.:String, '') AS requested_thinking,
    ifNull(e.attrs.requested_choices.:Int64, 0) AS requested_choices,
    coalesce(e.attrs.requested_temperature.:Float64, e.attrs.requested_temperature.:Int64) AS requested_temperature,
    ifNull(e.attrs.requested_max_tokens.:Int64, 0) AS requested_max_tokens,
    ifNull(e.attrs.kv_transfer_in.:String, '') AS kv_transfer_in,
    ifNull(e.attrs.kv_transfer_out.:Bool, false) AS kv_transfer_out,
    ifNull(e.attrs.remote_engine_id.:String, '') AS remote_engine_id,
    ifNull(e.attrs.remote_request_id.:String, '') AS remote_request_id,
    ifNull(e.attrs.unreadable.:String, '') AS unreadable,
    ifNull(e.attrs.features_missing.:String, '') AS features_missing,
    CAST(JSONExtract(toJSONString(e.attrs), 'features', 'Map(String, Float64)') AS Map(String, Float64)) AS features
FROM events AS e FINAL
WHERE e.name = 'api.response'

-- statement

-- What a router in front of the engines told is the same answer once more: no request of its own.
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
WHERE NOT (engine_id = '' AND startsWith(request_id, 'response:') AND NOT startsWith(request_id, 'response:log-'))
