-- question: In which factors of the compatibility hash do two engines that met differ?
-- parameter: prefill String = '' : engine id or group of the prefill engine; empty for every one
-- parameter: decode String = '' : engine id or group of the decode engine; empty for every one
-- column: prefill_group : group of the prefill engine
-- column: decode_group : group of the decode engine
-- column: factor : name of the hash factor
-- column: prefill_value : as prefill hashed it
-- column: decode_value : as decode hashed it
-- column: prefill_engine_id : the prefill engine
-- column: decode_engine_id : the decode engine
SELECT prefill_group, decode_group, factor, prefill_value, decode_value, prefill_engine_id, decode_engine_id
FROM configuration_differences
WHERE ({prefill:String} = '' OR {prefill:String} IN (prefill_engine_id, prefill_group))
  AND ({decode:String} = '' OR {decode:String} IN (decode_engine_id, decode_group))
ORDER BY prefill_group, decode_group, factor, prefill_engine_id, decode_engine_id
