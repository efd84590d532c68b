-- Expired leases of transfers that a failed read of these engines names.
SELECT count() AS transfers
FROM transfers
WHERE arrayExists(lease -> lease.reason = 'expired', lease_ends)
  AND arrayExists(read -> read.outcome = 'failed' AND read.engine_id IN {engine_ids:Array(String)}, reads)
