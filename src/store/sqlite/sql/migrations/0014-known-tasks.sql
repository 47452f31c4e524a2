-- Which tasks a worker lists; NULL: any. A claim reads a lane's waiting jobs by task where some of
-- its first jobs are of tasks that the claimer does not list. A lane without any other job is
-- parked, with the sets of tasks that claims looked for in it.
ALTER TABLE workers ADD COLUMN tasks TEXT;
ALTER TABLE lanes ADD COLUMN passed TEXT;
CREATE INDEX jobs_tasks ON jobs (lane, task, priority DESC, seq) WHERE state = 1;
CREATE INDEX lanes_parked ON lanes (queue, passed, priority DESC, turn, head) WHERE state = 4;
