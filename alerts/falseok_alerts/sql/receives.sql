-- What decode expected and how many requests it resumed as received, by the fingerprint of the candidates.
SELECT verdict,
       if(reason != '', reason, first_failure_type) AS reason_or_failure,
       prefill_group,
       decode_group,
       model,
       countIf(http_status = 200) AS answered_200,
       minIf(expected_tokens, expected_tokens > 0) AS expected_tokens_least,
       max(expected_tokens) AS expected_tokens_most,
       countIf(resume_branch = 'resume' AND NOT scheduler_marked_failed) AS resumed_as_received
FROM request_verdicts
WHERE leg = 'decode' AND verdict IN ('corrupt', 'failed_closed', 'recovered')
GROUP BY verdict, reason_or_failure, prefill_group, decode_group, model
