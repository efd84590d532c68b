-- question: Which requests were affected, and what did each client see?
-- parameter: verdict String = corrupt : verdict to list; empty for every verdict
-- parameter: reason String = '' : reason, or failure type where the verdict has no reason; empty for every one
-- parameter: prefill_group String = '' : group of the prefill engine; empty for every one
-- parameter: decode_group String = '' : group of the decode engine; empty for every one
-- parameter: model String = '' : served model; empty for every one
-- parameter: since Int64 = 0 : only requests last seen at or after this moment, microseconds since the epoch
-- parameter: until Int64 = 9223372036854775807 : only requests first seen at or before this moment
-- column: external_id : the id the client or router sent
-- column: request_id : the engine's own id
-- column: trace_id : W3C trace id, where there was one
-- column: first_seen : microseconds since the epoch, UTC
-- column: verdict : what happened to the request
-- column: evidence : proven, strong, suspected or none
-- column: reason : why it is corrupt
-- column: explanation : one sentence with the numbers
-- column: http_status : what the client was answered; 0 where that was not seen
-- column: delivered : whether tokens reached the client: yes, no or unknown
-- column: output_tokens : tokens generated
-- column: finish_reason : as the engine or the response says
-- column: prefill_engine_id : engine that computed the KV
-- column: decode_engine_id : engine that answered
-- column: evidence_events : ids of the events that prove it
SELECT external_id, request_id, trace_id, first_seen, verdict, evidence, reason, explanation, http_status, delivered,
       output_tokens, finish_reason, prefill_engine_id, decode_engine_id, evidence_events
FROM request_verdicts
WHERE ({verdict:String} = '' OR verdict = {verdict:String})
  AND ({reason:String} = '' OR if(reason != '', reason, first_failure_type) = {reason:String})
  AND ({prefill_group:String} = '' OR prefill_group = {prefill_group:String})
  AND ({decode_group:String} = '' OR decode_group = {decode_group:String})
  AND ({model:String} = '' OR model = {model:String})
  AND last_seen >= {since:Int64} AND first_seen <= {until:Int64}
ORDER BY first_seen, engine_id, request_id
