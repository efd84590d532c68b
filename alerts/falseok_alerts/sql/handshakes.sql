-- Handshakes between the candidates' engines, one row a pair.
SELECT prefill_engine_id, decode_engine_id, attempts, failures, failure_types, local_hashes, remote_hashes,
       exception_messages
FROM handshake_pairs
WHERE prefill_engine_id IN {engine_ids:Array(String)} AND decode_engine_id IN {engine_ids:Array(String)}
