-- Remote work. jobs.lease and jobs.timeout are a job's own terms, in µs. jobs.leased is the length
-- of its last lease when that began; jobs.ends is when its attempt times out. jobs.errors are its
-- last failures, each as JSON text. jobs.bounded: the queue had bounds when the job was
-- stored, so the job counts there while it waits. Jobs of other queues cost nothing for it.
ALTER TABLE sluice.jobs ADD COLUMN lease bigint, ADD COLUMN leased bigint,
ADD COLUMN timeout bigint, ADD COLUMN ends bigint, ADD COLUMN errors text[],
  ADD COLUMN progress text, ADD COLUMN dead_letter boolean NOT NULL DEFAULT false,
  ADD COLUMN bounded boolean;
CREATE INDEX jobs_ends ON sluice.jobs (ends) WHERE state = 2 AND ends IS NOT NULL;
CREATE INDEX jobs_dead_letter ON sluice.jobs (seq) WHERE state = 7 AND dead_letter;
CREATE INDEX jobs_bounded ON sluice.jobs (queue) WHERE bounded AND state IN (0, 1, 4);

CREATE TABLE sluice.queues (
  name text COLLATE "C" PRIMARY KEY,
  paused boolean NOT NULL DEFAULT false,
  bounds text,
  limit_name text COLLATE "C",
  created bigint
);
CREATE INDEX queues_held ON sluice.queues (name) WHERE paused OR limit_name IS NOT NULL;
CREATE INDEX queues_bounded ON sluice.queues (name) WHERE bounds IS NOT NULL;

ALTER TABLE sluice.workers ADD COLUMN name text COLLATE "C",
ADD COLUMN directive text NOT NULL DEFAULT 'running', ADD COLUMN about text;
CREATE UNIQUE INDEX workers_name ON sluice.workers (name) WHERE name IS NOT NULL;

-- They have other arguments from now on.
DROP FUNCTION IF EXISTS sluice.insert_jobs(
  uuid[], text[], text[], text[], bigint[], int[], bigint[], bigint[], text[], text[], text[],
  text[], text[], text[], bigint[], int[], text[], int[]
);
DROP FUNCTION IF EXISTS sluice.claim_write(
  bigint, bigint, bigint, bigint, json, json, json, json, json
);
DROP FUNCTION IF EXISTS sluice.start_jobs(bigint[], text[], bigint, bigint, bigint);
DROP FUNCTION IF EXISTS sluice.claim_open(
  text[], text[], int[], bigint, bigint, bigint, bigint, text[]
);
