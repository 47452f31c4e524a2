-- Which tasks a worker lists; null: any. A claim reads a lane's waiting jobs by task where some of
-- its first jobs are of tasks that the claimer does not list. A lane without any other job is
-- parked, with the sets of tasks that claims looked for in it.
ALTER TABLE sluice.workers ADD COLUMN tasks text[];
ALTER TABLE sluice.lanes ADD COLUMN passed text COLLATE "C";
CREATE INDEX jobs_tasks ON sluice.jobs (lane, task, priority DESC, seq) WHERE state = 1;
CREATE INDEX lanes_parked ON sluice.lanes (queue, passed, priority DESC, turn, head)
WHERE state = 4;
DROP FUNCTION IF EXISTS sluice.claim_open(
  text[], text[], int[], bigint, bigint, bigint, bigint, text[], boolean
);
