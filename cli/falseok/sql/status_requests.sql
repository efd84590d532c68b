-- How many answered requests got which verdict.
SELECT verdict, count() AS requests
FROM request_verdicts
GROUP BY verdict
ORDER BY requests DESC, verdict
