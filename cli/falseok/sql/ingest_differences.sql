-- Hash factors that differ between these engines.
SELECT prefill_engine_id, decode_engine_id, factor, prefill_value AS prefill, decode_value AS decode
FROM configuration_differences
WHERE prefill_engine_id IN {engine_ids:Array(String)} AND decode_engine_id IN {engine_ids:Array(String)}
ORDER BY prefill_engine_id, decode_engine_id, factor
