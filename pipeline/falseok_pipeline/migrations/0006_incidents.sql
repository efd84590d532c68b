-- Requests that share a fingerprint: verdict, reason or failure type, prefill group, decode group, model.

CREATE OR REPLACE VIEW incident_candidates AS
WITH
    judged AS (
        SELECT *, if(reason != '', reason, first_failure_type) AS cause_key
        FROM request_verdicts
        WHERE leg = 'decode'
    ),
    traffic AS (
        SELECT prefill_group, decode_group, count() AS requests FROM judged GROUP BY prefill_group, decode_group
    ),
    everywhere AS (
        SELECT verdict, cause_key, count() AS affected FROM judged GROUP BY verdict, cause_key
    ),
    total AS (SELECT count() AS requests FROM judged)
SELECT
    j.verdict AS verdict,
    j.cause_key AS reason,
    j.prefill_group AS prefill_group,
    j.decode_group AS decode_group,
    j.model AS model,
    ['none', 'suspected', 'strong', 'proven'][max(indexOf(['none', 'suspected', 'strong', 'proven'], j.evidence))] AS evidence,
    count() AS affected,
    arraySort(groupUniqArray(j.prefill_engine_id)) AS prefill_engine_ids,
    arraySort(groupUniqArray(j.decode_engine_id)) AS decode_engine_ids,
    min(j.first_seen) AS first_seen,
    max(j.last_seen) AS last_seen,
    arraySlice(arraySort(groupArray((j.first_seen, j.request_id, j.external_id, j.explanation))).2, 1, 10) AS sample_request_ids,
    arraySlice(arraySort(groupArray((j.first_seen, j.request_id, j.external_id, j.explanation))).3, 1, 10) AS sample_external_ids,
    arraySlice(arraySort(groupArray((j.first_seen, j.request_id, j.external_id, j.explanation))).4, 1, 10) AS sample_explanations,
    arraySort(groupUniqArrayArray(j.failure_types)) AS failure_types,
    arraySlice(arraySort(groupUniqArrayArray(j.failure_messages)), 1, 20) AS failure_messages,
    arraySort(groupUniqArrayIf(j.http_status, j.has_response)) AS http_statuses,
    arraySort(groupUniqArrayIf(j.resume_branch, j.resume_branch != '')) AS resume_branches,
    arraySort(groupUniqArrayIf(j.policy, j.policy != '')) AS policies,
    countIf(notEmpty(j.failure_types)) AS failed_reads,
    sum(j.expected_tokens) AS expected_tokens,
    sum(j.received_bytes) AS received_bytes,
    sum(j.output_tokens) AS output_tokens,
    any(traffic.requests) AS pair_requests,
    affected / pair_requests AS pair_share,
    any(total.requests) - pair_requests AS elsewhere_requests,
    any(everywhere.affected) - affected AS elsewhere_affected,
    arraySlice(arraySort(groupUniqArrayArray(j.evidence_events)), 1, 100) AS evidence_events
FROM judged AS j
INNER JOIN traffic ON traffic.prefill_group = j.prefill_group AND traffic.decode_group = j.decode_group
INNER JOIN everywhere ON everywhere.verdict = j.verdict AND everywhere.cause_key = j.cause_key
CROSS JOIN total
WHERE j.verdict IN ('corrupt', 'failed_closed', 'recovered')
GROUP BY j.verdict, j.cause_key, j.prefill_group, j.decode_group, j.model
