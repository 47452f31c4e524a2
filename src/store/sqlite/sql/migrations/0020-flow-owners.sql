-- Whose a workflow flow is: its tenant, and the queue that a caller must be allowed to name. Plain
-- flows have none.
ALTER TABLE flows ADD COLUMN owner TEXT;
ALTER TABLE flows ADD COLUMN owner_queue TEXT;
CREATE INDEX flows_owner ON flows (owner, seq) WHERE owner IS NOT NULL;
WITH RECURSIVE up (seq, top) AS (
  SELECT seq, seq FROM flows WHERE kind IN ('workflow', 'machine', 'graph') AND parent IS NULL
  UNION
  SELECT f.seq, u.top FROM up u JOIN flows f ON f.parent = u.seq
), tops (seq, extra, queue) AS (
  SELECT up.seq, t.extra, q.name FROM up JOIN flows t ON t.seq = up.top
  LEFT JOIN jobs j ON j.flow = t.seq AND j.node = 0 LEFT JOIN queues q ON q.id = j.queue
)
UPDATE flows SET
  owner = coalesce(
    t.extra ->> '$.owner.tenant',
    CASE WHEN instr(t.queue, '/') > 0 THEN substr(t.queue, 1, instr(t.queue, '/') - 1) END, ''
  ),
  owner_queue = coalesce(
    t.extra ->> '$.owner.queue', substr(t.queue, instr(t.queue, '/') + 1), ''
  )
FROM tops t WHERE t.seq = flows.seq;
