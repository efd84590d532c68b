-- Every engine seen, the latest first.
SELECT engine_id, group, kv_role, vllm_version, model, dtype, compatibility_hash, hosts, processes, has_config,
       first_seen, last_seen
FROM engines
ORDER BY last_seen DESC, engine_id
