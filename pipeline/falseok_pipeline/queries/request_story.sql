-- question: What happened to this request, event by event, in both engines?
-- parameter: request_id String : the client's id, or the engine's own id on either side
-- column: time : wall clock, UTC
-- column: leg : prefill, decode, local or unknown: what this request was in the engine that reports
-- column: name : event name
-- column: rank : worker rank, -1 for other processes
-- column: attrs : the event's own fields, as JSON
-- column: engine_id : engine that reports
-- column: request_id : the engine's own id
-- column: transfer_id : hand-over it belongs to
-- column: id : event id
WITH
    handed_over AS (
        SELECT DISTINCT arrayJoin(transfer_ids) AS transfer_id
        FROM requests
        WHERE request_id = {request_id:String} OR external_id = {request_id:String}
    ),
    legs AS (
        SELECT engine_id, request_id, leg
        FROM request_legs
        WHERE request_id = {request_id:String} OR external_id = {request_id:String}
           OR hasAny(transfer_ids, (SELECT groupArray(transfer_id) FROM handed_over))
    )
SELECT
    concat(replaceOne(toString(e.time), ' ', 'T'), 'Z') AS time,
    legs.leg AS leg,
    toString(e.name) AS name,
    e.rank AS rank,
    toJSONString(e.attrs) AS attrs,
    toString(e.engine_id) AS engine_id,
    e.request_id AS request_id,
    e.transfer_id AS transfer_id,
    e.id AS id
FROM events AS e FINAL
INNER JOIN legs ON legs.engine_id = e.engine_id AND legs.request_id = e.request_id
WHERE (e.engine_id, e.request_id) IN (SELECT engine_id, request_id FROM legs)
ORDER BY e.ts, e.id
