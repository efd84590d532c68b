-- Every judged request with this id, the client's or the engine's own.
SELECT *
FROM request_verdicts
WHERE request_id = {id:String} OR external_id = {id:String}
ORDER BY first_seen, engine_id, request_id
