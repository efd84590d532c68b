-- Every process that runs a collector: what it lost, how its sinks are doing, whether it captures text, and which of its hooks give no evidence.
SELECT boot, sinks, captures_text, engine_id, host, pid, process, events_seen, lost_events, events_emitted, events_dropped, events_spilled,
       segments_dropped, sink_errors, queue_depth, last_heartbeat, first_seen, last_seen,
       length(hooks) AS hooks_known,
       length(arrayFilter(hook -> hook.state = 'active', hooks)) AS hooks_active,
       arraySort(arrayDistinct(arrayConcat(
           arrayMap(hook -> concat(hook.name, ' is unavailable'), arrayFilter(hook -> hook.state = 'unavailable', hooks)),
           arrayMap(hook -> concat(hook.name, ' had ', toString(hook.errors), ' errors of its own'),
                    arrayFilter(hook -> hook.errors > 0, hooks)),
           arrayMap(hook -> concat(hook.hook, ' is unavailable (', hook.reason, ')'), unavailable_hooks)
       ))) AS hooks_in_trouble
FROM collectors
LEFT JOIN (
    -- By GROUP BY, not FINAL, because it looks into a tuple.
    SELECT
        toString(folded.boot) AS boot,
        JSONExtract(tupleElement(max(folded.heartbeat), 'attrs'), 'sinks', 'Array(Tuple(
            name String, state String, events_sent Int64, events_waiting Int64, events_lost Int64,
            errors Int64, last_error String))') AS sinks,
        toBool(JSONExtractBool(tupleElement(max(folded.heartbeat), 'attrs'), 'captures_text')) AS captures_text
    FROM collectors_folded AS folded
    GROUP BY folded.boot
) AS told USING (boot)
-- What was read from log files has a boot, but no collector.
WHERE NOT startsWith(boot, 'log-')
ORDER BY last_seen DESC, boot
