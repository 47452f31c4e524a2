-- Remote work: a job's own lease, timeout and history, workers without a process here, queues as
-- rows of their own.
ALTER TABLE jobs ADD COLUMN lease INTEGER;
ALTER TABLE jobs ADD COLUMN leased INTEGER;
ALTER TABLE jobs ADD COLUMN timeout INTEGER;
ALTER TABLE jobs ADD COLUMN ends INTEGER;
ALTER TABLE jobs ADD COLUMN dead_letter INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN errors TEXT;
ALTER TABLE jobs ADD COLUMN progress TEXT;
CREATE INDEX jobs_ends ON jobs (ends) WHERE state = 2 AND ends IS NOT NULL;
CREATE INDEX jobs_dead_letter ON jobs (seq) WHERE state = 7 AND dead_letter = 1;
DROP INDEX jobs_parked;
CREATE INDEX jobs_parked ON jobs (lane, state) WHERE state IN (0, 4, 5, 7);
CREATE INDEX lanes_queue ON lanes (queue);
ALTER TABLE queues ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN bounds TEXT;
ALTER TABLE queues ADD COLUMN created INTEGER;
ALTER TABLE queues ADD COLUMN limit_name TEXT;
CREATE INDEX queues_held ON queues (id) WHERE paused = 1 OR limit_name IS NOT NULL;
ALTER TABLE workers ADD COLUMN name TEXT;
ALTER TABLE workers ADD COLUMN directive TEXT NOT NULL DEFAULT 'running';
ALTER TABLE workers ADD COLUMN about TEXT;
CREATE UNIQUE INDEX workers_name ON workers (name) WHERE name IS NOT NULL;
