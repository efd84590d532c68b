-- Every group of requests that share a fingerprint and deserve an incident.
SELECT verdict, reason, prefill_group, decode_group, model, evidence, affected, prefill_engine_ids, decode_engine_ids,
       first_seen, last_seen, sample_request_ids, sample_external_ids, failure_types, resume_branches, policies,
       failed_reads, received_bytes, pair_requests, elsewhere_requests, elsewhere_affected
FROM incident_candidates
ORDER BY verdict, reason, prefill_group, decode_group, model
