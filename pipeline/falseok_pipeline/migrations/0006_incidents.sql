-- Requests that share a fingerprint: verdict, reason or failure type, prefill group, decode group, model.
-- Every verdict is grouped first, in one pass; the shares are sums over the groups.

CREATE OR REPLACE VIEW incident_candidates AS
WITH grouped AS (
    SELECT
        verdict,
        if(reason != '', reason, first_failure_type) AS cause_key,
        prefill_group,
        decode_group,
        model,
        max(indexOf(['none', 'suspected', 'strong', 'proven'], evidence)) AS evidence_rank,
        count() AS affected,
        arraySort(groupUniqArray(prefill_engine_id)) AS prefill_engine_ids,
        arraySort(groupUniqArray(decode_engine_id)) AS decode_engine_ids,
        min(v.first_seen) AS first_seen,
        max(v.last_seen) AS last_seen,
        groupArraySorted(10)((v.first_seen, request_id, external_id, explanation)) AS samples,
        arraySort(groupUniqArrayArray(v.failure_types)) AS failure_types,
        arraySlice(arraySort(groupUniqArrayArray(v.failure_messages)), 1, 20) AS failure_messages,
        arraySort(groupUniqArrayIf(http_status, has_response)) AS http_statuses,
        arraySort(groupUniqArrayIf(resume_branch, resume_branch != '')) AS resume_branches,
        arraySort(groupUniqArrayIf(policy, policy != '')) AS policies,
        countIf(notEmpty(v.failure_types)) AS failed_reads,
        sum(v.expected_tokens) AS expected_tokens,
        sum(v.received_bytes) AS received_bytes,
        sum(v.output_tokens) AS output_tokens,
        arrayDistinct(groupArraySortedArray(100)(v.evidence_events)) AS evidence_events
    FROM request_verdicts AS v
    WHERE leg = 'decode'
    GROUP BY verdict, cause_key, prefill_group, decode_group, model
),
shared AS (
    SELECT
        *,
        sum(affected) OVER (PARTITION BY prefill_group, decode_group) AS pair_requests,
        sum(affected) OVER (PARTITION BY verdict, cause_key) AS affected_everywhere,
        sum(affected) OVER () AS all_requests,
        -- Other models of the same pair are neither this group nor elsewhere.
        sum(affected) OVER (PARTITION BY verdict, cause_key, prefill_group, decode_group) AS affected_in_pair
    FROM grouped
)
SELECT
    verdict,
    cause_key AS reason,
    prefill_group,
    decode_group,
    model,
    ['none', 'suspected', 'strong', 'proven'][evidence_rank] AS evidence,
    affected,
    prefill_engine_ids,
    decode_engine_ids,
    first_seen,
    last_seen,
    samples.2 AS sample_request_ids,
    samples.3 AS sample_external_ids,
    samples.4 AS sample_explanations,
    failure_types,
    failure_messages,
    http_statuses,
    resume_branches,
    policies,
    failed_reads,
    expected_tokens,
    received_bytes,
    output_tokens,
    pair_requests,
    affected / pair_requests AS pair_share,
    all_requests - pair_requests AS elsewhere_requests,
    affected_everywhere - affected_in_pair AS elsewhere_affected,
    evidence_events
FROM shared
WHERE verdict IN ('corrupt', 'failed_closed', 'recovered')
