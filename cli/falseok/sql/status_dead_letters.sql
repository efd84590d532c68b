-- Lines that could not be stored, by reason, with the latest as an example.
SELECT reason, count() AS count, concat(argMax(message, recorded_at), ' (', argMax(source, recorded_at), ')') AS example
FROM dead_letters
GROUP BY reason
ORDER BY count DESC, reason
