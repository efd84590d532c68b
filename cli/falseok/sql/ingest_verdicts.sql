-- How the requests of these engines are judged.
SELECT verdict, evidence, reason, count() AS requests, min(r.explanation) AS explanation
FROM request_verdicts AS r
WHERE engine_id IN {engine_ids:Array(String)}
GROUP BY verdict, evidence, reason
ORDER BY requests DESC, verdict, evidence, reason
