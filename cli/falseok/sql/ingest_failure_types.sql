-- How many requests of these engines failed in which way.
SELECT arrayJoin(failure_types) AS failure_type, count() AS requests
FROM request_verdicts
WHERE engine_id IN {engine_ids:Array(String)}
GROUP BY failure_type
ORDER BY requests DESC, failure_type
