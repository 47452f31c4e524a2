-- The first tables. Unlike SQLite, a queue and a lane are known by name: an enqueue has nothing to
-- look up. The rows of `arrivals` tell claims which lanes to read: an enqueue has nothing to lock.
--
-- jobs.priority orders jobs; jobs.asked is the priority that the caller gave, where ageing makes
-- the two differ. A lane has `share` starts in a row and has `taken` that many; `fair` is the key
-- that splits lanes beside their buckets. buckets.deferred counts jobs that waited and have started
-- since the bucket was last reported, at `told`. `touched` is when pruning last read the bucket. No
-- claim writes it: no index holds what a claim changes of a bucket that no lane waits for.
--
-- jobs.due is the time that the job's state waits for. It is on the wall clock for `scheduled`, and
-- on the store's clock for `retryable` (next run), `active` (end of the lease), `available` (latest
-- start, if any) and the final states (end of retention).
--
-- lanes.sieve is the scan cursor (policy/admission/scan-cursor.ts). jobs.booked is when a job that
-- a limit rescheduled is expected to start, on the store's clock. It keeps its place in the lane,
-- and reads as scheduled until then. arrivals.level and arrivals.first are the place of the first
-- job that came; null: something else happened to the lane.
CREATE TABLE sluice.store (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);

CREATE TABLE sluice.jobs (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id uuid NOT NULL,
  task text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  state smallint NOT NULL,
  lane text COLLATE "C" NOT NULL,
  priority bigint NOT NULL,
  asked smallint,
  fair text COLLATE "C",
  attempt int NOT NULL DEFAULT 0,
  max_attempts int NOT NULL,
  pushed_back int NOT NULL DEFAULT 0,
  created bigint NOT NULL,
  since bigint NOT NULL,
  due bigint,
  started bigint,
  finished bigint,
  worker bigint,
  cancelling boolean NOT NULL DEFAULT false,
  expires bigint,
  booked bigint,
  uses text,
  weights text,
  permits bigint[],
  unique_key text COLLATE "C",
  schedule text COLLATE "C",
  occurs bigint,
  input text NOT NULL,
  result text,
  error text,
  extra text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX jobs_id ON sluice.jobs (id);
CREATE INDEX jobs_waiting ON sluice.jobs (lane, priority DESC, seq) WHERE state = 1;
CREATE INDEX jobs_scheduled ON sluice.jobs (due) WHERE state = 0;
CREATE INDEX jobs_late ON sluice.jobs (due) WHERE state = 1 AND due IS NOT NULL;
CREATE INDEX jobs_leases ON sluice.jobs (due) WHERE state = 2;
CREATE INDEX jobs_retryable ON sluice.jobs (due) WHERE state = 4;
CREATE INDEX jobs_ended ON sluice.jobs (state, due) WHERE state IN (3, 6, 7);
CREATE INDEX jobs_unique ON sluice.jobs (unique_key, seq) WHERE unique_key IS NOT NULL;

CREATE TABLE sluice.arrivals (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  uses text NOT NULL,
  fair text COLLATE "C",
  share smallint,
  look boolean NOT NULL,
  level bigint,
  first bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX arrivals_queue ON sluice.arrivals (queue, id);

CREATE TABLE sluice.lanes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  buckets bigint[] NOT NULL,
  state smallint NOT NULL DEFAULT 0,
  bucket bigint,
  over text COLLATE "C" NOT NULL DEFAULT '',
  deputy_of bigint,
  priority bigint NOT NULL DEFAULT 0,
  turn bigint NOT NULL DEFAULT 0,
  taken smallint NOT NULL DEFAULT 0,
  share smallint NOT NULL DEFAULT 1,
  fair text COLLATE "C",
  head bigint NOT NULL DEFAULT 0,
  sieve text,
  emptied bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX lanes_key ON sluice.lanes (key);
CREATE INDEX lanes_buckets ON sluice.lanes (buckets);
CREATE INDEX lanes_open ON sluice.lanes (queue, priority DESC, turn, head) WHERE state = 1;
CREATE INDEX lanes_line ON sluice.lanes (bucket, queue, over, priority DESC, turn, head)
WHERE state = 2;
CREATE INDEX lanes_deputies ON sluice.lanes (deputy_of) WHERE deputy_of IS NOT NULL;
CREATE INDEX lanes_emptied ON sluice.lanes (emptied) WHERE state = 0;

CREATE TABLE sluice.buckets (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  limit_name text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  state text,
  revision int NOT NULL DEFAULT 0,
  active int NOT NULL DEFAULT 0,
  lanes int NOT NULL DEFAULT 0,
  wake_at bigint,
  deferred int NOT NULL DEFAULT 0,
  told bigint,
  touched bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX buckets_name ON sluice.buckets (limit_name, key);
CREATE INDEX buckets_wake ON sluice.buckets (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX buckets_idle ON sluice.buckets (touched) WHERE lanes = 0;

CREATE TABLE sluice.limits (
  name text COLLATE "C" NOT NULL,
  revision int NOT NULL,
  policy text NOT NULL,
  version bigint NOT NULL,
  since bigint NOT NULL,
  PRIMARY KEY (name, revision)
);
CREATE TABLE sluice.overrides (
  name text COLLATE "C" NOT NULL,
  revision int NOT NULL,
  kind text NOT NULL,
  key text COLLATE "C",
  change text,
  since bigint NOT NULL,
  until bigint,
  author text,
  reason text,
  PRIMARY KEY (name, revision)
);
-- The longest waits of the policies in force, for statements that cannot compute them: one per
-- limit, and one per key that differs.
CREATE TABLE sluice.max_waits (
  limit_name text COLLATE "C" NOT NULL,
  key text COLLATE "C",
  max_wait bigint,
  UNIQUE (limit_name, key)
);

CREATE TABLE sluice.workers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  boot text NOT NULL,
  pid int NOT NULL,
  born text NOT NULL,
  queues text[] NOT NULL,
  alive_until bigint NOT NULL,
  joined bigint NOT NULL
);

-- Times use the wall clock if wall is true, otherwise the store's clock. anchor is a due time, and
-- anchor_wall the wall clock at that time.
CREATE TABLE sluice.schedules (
  name text COLLATE "C" PRIMARY KEY,
  spec text NOT NULL,
  wall boolean NOT NULL,
  anchor bigint NOT NULL,
  anchor_wall bigint NOT NULL,
  next_at bigint,
  catch_up_to bigint,
  runs int NOT NULL DEFAULT 0,
  last_due bigint,
  last_job uuid
);
CREATE INDEX schedules_due ON sluice.schedules (wall, next_at)
WHERE catch_up_to IS NULL AND next_at IS NOT NULL;
CREATE INDEX schedules_held ON sluice.schedules (last_job) WHERE catch_up_to IS NOT NULL;
