import { END_OF_TIME_US } from '../../base/instant.ts'
import { ADVANCE, FLOW_RUNS } from './sql/advance.ts'
import { CLAIM_LOOK } from './sql/claim-read.ts'
import { CLAIM_OPEN } from './sql/claim-open.ts'
import { CLAIM_WRITE } from './sql/claim-write.ts'
import { ARRIVALS } from './sql/arrivals.ts'
import { ENQUEUE } from './sql/enqueue.ts'
import { ENQUEUE_CALL } from './sql/enqueue-call.ts'
import { FLOW_TABLES } from './sql/flow-tables.ts'
import { HISTORY } from './sql/history.ts'
import { OFFER } from './sql/push.ts'
import { OUTSIDE_TABLES } from './sql/outside-tables.ts'
import { RETIME } from './sql/retime.ts'
import { SETTLE } from './sql/settle.ts'
import { UNRESOLVED } from './sql/unresolved.ts'
import { VIEWS } from './sql/views.ts'
import { START_FLOW } from './sql/start-flow.ts'

/**
 * The tables of the PostgreSQL store. As on SQLite, with what many machines need besides: a queue and a lane are known by their names, so
 * that an enqueue has nothing to look up, and `arrivals` tells the claims which lanes to look at, so that it has nothing to lock.
 *
 * `jobs.priority` is what a job is ordered by, and `asked` the priority that it was given, where ageing makes them differ. Turns: a lane has
 * `share` starts in a row, of which it has `taken` so many; `fair` is the key that splits lanes beside their buckets. `buckets.deferred`
 * counts jobs that waited and have started since the bucket was last told of, at `told`; `touched` is when it was made, or last looked at by
 * the pruning, and no claim writes it: no index holds what a claim changes of a bucket that nobody waits for.
 *
 * `jobs.due` is when the state's own time comes: wall clock for `scheduled`, the store's clock for `retryable` (next run), `active`
 * (end of the lease), `available` (latest start, where there is one) and the final states (end of retention).
 *
 * `lanes.sieve` is how far a lane was sifted for jobs that come too late (policy/admission/scan-cursor.ts). `jobs.booked` is when one that a limit put off is
 * expected to start, on the store's clock: it keeps its place in the lane, and until then it is shown as scheduled. `arrivals.level` and
 * `first` are the place of the first job that came; null: something else happened to the lane.
 */
const TABLES = `
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
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
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
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
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
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX lanes_key ON sluice.lanes (key);
CREATE INDEX lanes_buckets ON sluice.lanes (buckets);
CREATE INDEX lanes_open ON sluice.lanes (queue, priority DESC, turn, head) WHERE state = 1;
CREATE INDEX lanes_line ON sluice.lanes (bucket, queue, over, priority DESC, turn, head) WHERE state = 2;
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
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
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
-- What the policies in force say of the longest wait, for statements that cannot ask them; of a limit, and of keys where that differs.
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

-- Times are the wall clock's where wall is true, else the store's; anchor is a due time, and anchor_wall is what the wall clock showed then.
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
CREATE INDEX schedules_due ON sluice.schedules (wall, next_at) WHERE catch_up_to IS NULL AND next_at IS NOT NULL;
CREATE INDEX schedules_held ON sluice.schedules (last_job) WHERE catch_up_to IS NOT NULL;
`

// Both are the server's one clock. They are functions of the schema, so that a test may give its own schema a clock of its own.
const CLOCK = `
CREATE OR REPLACE FUNCTION sluice.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $f$;
CREATE OR REPLACE FUNCTION sluice.wall_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $f$;
`

// A lane that stands nowhere is not looked up by its buckets.
const LIGHTER_CLAIMS = `
DROP INDEX sluice.lanes_buckets;
CREATE INDEX lanes_buckets ON sluice.lanes (buckets) WHERE state <> 0;
DROP FUNCTION IF EXISTS sluice.claim_write(bigint, bigint, bigint, bigint, json, json, json, json, json);
`

/**
 * Budgets of each worker: a bucket is the fleet's (0) or one worker's own; a view is one worker's lane over the jobs of another, `base`; `apart`
 * names the limits that are, or have been, of that scope.
 */
const OWN_BUDGETS = `
ALTER TABLE sluice.buckets ADD COLUMN worker bigint NOT NULL DEFAULT 0;
DROP INDEX sluice.buckets_name;
CREATE UNIQUE INDEX buckets_name ON sluice.buckets (limit_name, key, worker);
DROP INDEX sluice.buckets_wake;
CREATE INDEX buckets_wake ON sluice.buckets (worker, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX buckets_own ON sluice.buckets (worker) WHERE worker <> 0;
ALTER TABLE sluice.lanes ADD COLUMN base text COLLATE "C", ADD COLUMN worker bigint;
CREATE INDEX lanes_views ON sluice.lanes (base) WHERE base IS NOT NULL;
CREATE INDEX lanes_own ON sluice.lanes (worker) WHERE worker IS NOT NULL;
CREATE INDEX lanes_spread ON sluice.lanes (queue) WHERE state = 3;
CREATE TABLE sluice.apart (limit_name text COLLATE "C" PRIMARY KEY, apart boolean NOT NULL);
DROP FUNCTION IF EXISTS sluice.claim_next(bigint);
DROP FUNCTION IF EXISTS sluice.create_lanes(text[], text[], text[], text[], int[], bigint);
`

/**
 * Each arrival says which transaction brought it, so that a claim need not read again what it has taken in: while somebody's old snapshot is
 * open, rows that are gone cannot be vacuumed, and a claim would step over each of them (sql/arrivals.ts).
 */
const ARRIVALS_BY_TRANSACTION = `
ALTER TABLE sluice.arrivals ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
DROP INDEX sluice.arrivals_queue;
CREATE INDEX arrivals_queue ON sluice.arrivals (queue, xid, id);
DROP FUNCTION IF EXISTS sluice.claim_reach(text[], bigint[], bigint[], bigint[], int, int, int);
`

/** No instant is from 2200 on (base/instant.ts): what an earlier version has taken in is as far ahead as may be. `sluice.enqueue` refuses it too. */
const FAR_INSTANTS = `
UPDATE sluice.jobs SET due = ${END_OF_TIME_US} WHERE due > ${END_OF_TIME_US} AND state IN (0, 1, 4);
UPDATE sluice.jobs SET expires = ${END_OF_TIME_US} WHERE expires > ${END_OF_TIME_US};
`
/** The limits that code gives to a queue as a whole: every claim reads them, whoever makes it. */
const QUEUE_LIMITS = 'ALTER TABLE sluice.queues ADD COLUMN limits text, ADD COLUMN limits_version bigint;'

/** Who changed what through a server. */
const AUDIT_TABLE = `
CREATE TABLE sluice.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  who text NOT NULL,
  tenant text NOT NULL,
  action text NOT NULL,
  subject text NOT NULL,
  detail text NOT NULL
);
`

/**
 * Which tasks a worker lists, null: any. The waiting jobs of a lane by their task are read where some of its first are of tasks that a claimer
 * does not list. A lane without any other is parked, with the sets of tasks that were looked for in it.
 */
const KNOWN_TASKS = `
ALTER TABLE sluice.workers ADD COLUMN tasks text[];
ALTER TABLE sluice.lanes ADD COLUMN passed text COLLATE "C";
CREATE INDEX jobs_tasks ON sluice.jobs (lane, task, priority DESC, seq) WHERE state = 1;
CREATE INDEX lanes_parked ON sluice.lanes (queue, passed, priority DESC, turn, head) WHERE state = 4;
DROP FUNCTION IF EXISTS sluice.claim_open(text[], text[], int[], bigint, bigint, bigint, bigint, text[], boolean);
`

/** Lanes of jobs that no worker lists are parked where they arrive. */
const PARKED_AT_ARRIVAL = 'DROP FUNCTION IF EXISTS sluice.take_arrivals(text[], bigint);'

/**
 * Which claim from outside has started a job: what it took is given back when its answer was lost. A settlement names the start of its run.
 * Processes of an earlier version call the same functions without either.
 */
const CLAIM_IDS = `
ALTER TABLE sluice.jobs ADD COLUMN claim uuid;
DROP FUNCTION IF EXISTS sluice.start_jobs(bigint[], text[], bigint, bigint, bigint, boolean);
DROP FUNCTION IF EXISTS sluice.claim_open(text[], text[], int[], bigint, bigint, bigint, bigint, text[], boolean, text[], text);
DROP FUNCTION IF EXISTS sluice.claim_write(bigint, bigint, bigint, bigint, json, json, json, json, json, boolean);
DROP FUNCTION IF EXISTS sluice.settle(bigint[], int[], bigint[], int[], bigint[], text[], text[], int[], bigint[]);
`

/** Functions alone: what processes of 0.1.0 call is there again. */
const CALLED_BEFORE = ''

/**
 * Lanes that wait in another bucket's line and need one that drops, with what their first jobs ask of it (policy/admission/drop-watch.ts). Rows of lanes
 * that wait no more are passed over until the lane is written again.
 */
const DROP_WATCH = `
CREATE TABLE sluice.drop_watch (
  lane bigint NOT NULL REFERENCES sluice.lanes (id) ON DELETE CASCADE,
  bucket bigint NOT NULL,
  need bigint NOT NULL,
  PRIMARY KEY (lane, bucket)
);
CREATE INDEX drop_watch_need ON sluice.drop_watch (bucket, need DESC, lane);
`

/**
 * The changes of tables in order; how many were applied is kept in the table `store`. What was shipped is never edited: changes are
 * appended. One that changes what a function takes or answers drops the function; one that changes functions alone says why.
 */
export const MIGRATIONS: readonly string[] = [
  TABLES,
  LIGHTER_CLAIMS,
  OWN_BUDGETS,
  FLOW_TABLES,
  OUTSIDE_TABLES,
  ARRIVALS_BY_TRANSACTION,
  FAR_INSTANTS,
  QUEUE_LIMITS,
  AUDIT_TABLE,
  KNOWN_TASKS,
  PARKED_AT_ARRIVAL,
  CLAIM_IDS,
  DROP_WATCH,
  CALLED_BEFORE,
]

/** The functions of this version: put in place after any migration, so that each is written down once. */
export const FUNCTIONS: string = [
  CLOCK,
  ARRIVALS,
  VIEWS,
  ENQUEUE,
  UNRESOLVED,
  HISTORY,
  OFFER,
  ENQUEUE_CALL,
  START_FLOW,
  ADVANCE,
  FLOW_RUNS,
  SETTLE,
  RETIME,
  CLAIM_LOOK,
  CLAIM_OPEN,
  CLAIM_WRITE,
].join('\n')

/** Gives a schema the clock that its callers set, as `clock` of the engine says: for tests. */
export const GIVEN_CLOCK: string = `
CREATE OR REPLACE FUNCTION sluice.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT coalesce(nullif(current_setting('sluice_clock.now_us', true), '')::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $f$;
CREATE OR REPLACE FUNCTION sluice.wall_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT coalesce(nullif(current_setting('sluice_clock.wall_us', true), '')::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $f$;
`
