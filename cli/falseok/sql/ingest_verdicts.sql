-- How the requests of these engines are judged.
SELECT verdict, evidence, reason, count() AS requests, any(explanation) AS explanation
FROM request_verdicts
WHERE engine_id IN {engine_ids:Array(String)}
GROUP BY verdict, evidence, reason
ORDER BY requests DESC, verdict, evidence, reason
