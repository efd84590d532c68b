-- question: Which processes report, what did they lose, and which evidence can they not give?
-- column: engine_id : engine of the process
-- column: process : api_server, engine_core or worker
-- column: host : host name
-- column: pid : process id
-- column: boot : id of the process start
-- column: events_seen : events of this process in the store
-- column: lost_events : gaps in its sequence numbers: lost or refused
-- column: events_dropped : lost because the collector's ring was full
-- column: events_spilled : lost because the spool passed its bound
-- column: inactive_hooks : hooks that are not active
-- column: failing_hooks : hooks with errors of their own
-- column: unavailable_hooks : hooks that do not fit this vLLM, with the reason
-- column: last_heartbeat : microseconds since the epoch, UTC; 0 for none
SELECT engine_id, process, host, pid, boot, events_seen, lost_events, events_dropped, events_spilled,
       arraySort(arrayMap(h -> h.name, arrayFilter(h -> h.state != 'active', hooks))) AS inactive_hooks,
       arraySort(arrayMap(h -> h.name, arrayFilter(h -> h.errors > 0, hooks))) AS failing_hooks,
       arraySort(arrayDistinct(arrayMap(h -> concat(h.hook, ': ', h.reason), collectors.unavailable_hooks))) AS unavailable_hooks,
       last_heartbeat
FROM collectors
ORDER BY engine_id, process, boot
