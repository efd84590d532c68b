-- In an answer of several engine requests missing evidence outweighs a choice that needed no remote KV: `local` for the whole
-- would say that nothing could have gone wrong. (In one request `local` comes first: nothing is missing where nothing was read.)

CREATE OR REPLACE VIEW request_verdicts AS
SELECT
    * EXCEPT (answer_id, precedence),
    toInt64(count() OVER (PARTITION BY engine_id, answer_id)) AS children,
    arraySort(groupArray(request_id) OVER (PARTITION BY engine_id, answer_id)) AS engine_request_ids
FROM engine_request_verdicts
ORDER BY if(verdict = 'local', 9.5, toFloat64(precedence)), request_id
LIMIT 1 BY engine_id, answer_id
