-- The requests of one incident, exactly: an empty part of the fingerprint means empty here, not "every one".
SELECT external_id, request_id, trace_id,
       concat(replaceOne(toString(fromUnixTimestamp64Micro(first_seen, 'UTC')), ' ', 'T'), 'Z') AS first_seen_at,
       verdict, evidence, reason, explanation, http_status, delivered, output_tokens, finish_reason,
       prefill_engine_id, decode_engine_id, evidence_events
FROM request_verdicts
WHERE leg = 'decode'
  AND verdict = {verdict:String}
  AND if(reason != '', reason, first_failure_type) = {reason:String}
  AND prefill_group = {prefill_group:String}
  AND decode_group = {decode_group:String}
  AND model = {model:String}
ORDER BY first_seen, engine_id, request_id
