-- The engines named by the candidates, as their own configuration events describe them.
SELECT engine_id, group, hosts, kv_role AS role, vllm_version AS version, model, dtype, kv_cache_dtype,
       compatibility_hash, enforce_handshake_compat, reports_failed_receives, hybrid_memory_allocator,
       kv_load_failure_policy, factors, factors_compared, has_config, toBool(processes = ['log']) AS from_log, first_seen, last_seen
FROM engines
WHERE engine_id IN {engine_ids:Array(String)}
