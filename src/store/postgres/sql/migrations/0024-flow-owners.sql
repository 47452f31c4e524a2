-- Whose a workflow flow is: its tenant, and the queue that a caller must be allowed to name. Plain
-- flows have none.
ALTER TABLE sluice.flows ADD COLUMN owner text COLLATE "C";
ALTER TABLE sluice.flows ADD COLUMN owner_queue text COLLATE "C";
CREATE INDEX flows_owner ON sluice.flows (owner, seq) WHERE owner IS NOT NULL;
WITH RECURSIVE up (seq, top) AS (
  SELECT seq, seq FROM sluice.flows
  WHERE kind IN ('workflow', 'machine', 'graph') AND parent IS NULL
  UNION
  SELECT f.seq, u.top FROM up u JOIN sluice.flows f ON f.parent = u.seq
)
UPDATE sluice.flows f SET
  owner = coalesce(
    t.extra::json -> 'owner' ->> 'tenant',
    coalesce(substring(j.queue FROM '^(.*)/[^/]*$'), '')
  ),
  owner_queue = coalesce(
    t.extra::json -> 'owner' ->> 'queue', substring(j.queue FROM '[^/]*$'), ''
  )
FROM up JOIN sluice.flows t ON t.seq = up.top
LEFT JOIN sluice.jobs j ON j.flow = t.seq AND j.node = 0
WHERE f.seq = up.seq;
