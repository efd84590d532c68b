-- question: How many requests got which verdict, by engine pair and model?
-- parameter: since Int64 = 0 : only requests last seen at or after this moment, microseconds since the epoch
-- column: verdict : what happened
-- column: evidence : proven, strong, suspected or none
-- column: reason : why, for corrupt requests
-- column: prefill_group : group of the prefill engine
-- column: decode_group : group of the decode engine
-- column: model : served model
-- column: requests : how many
-- column: first_seen : microseconds since the epoch, UTC
-- column: last_seen : microseconds since the epoch, UTC
SELECT verdict, evidence, reason, prefill_group, decode_group, model, count() AS requests,
       min(v.first_seen) AS first_seen, max(v.last_seen) AS last_seen
FROM request_verdicts AS v
WHERE v.last_seen >= {since:Int64}
GROUP BY verdict, evidence, reason, prefill_group, decode_group, model
ORDER BY requests DESC, verdict, evidence, reason, prefill_group, decode_group, model
