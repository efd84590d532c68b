-- Every process that runs a collector: what it lost, and which of its hooks give no evidence.
SELECT boot, engine_id, host, pid, process, events_seen, lost_events, events_emitted, events_dropped, events_spilled,
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
-- What was read from log files has a boot, but no collector.
WHERE NOT startsWith(boot, 'log-')
ORDER BY last_seen DESC, boot
