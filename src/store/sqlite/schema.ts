import { END_OF_TIME_US } from '../../base/instant.ts'

/**
 * The tables of the SQLite store, as a list of migrations: the number of those applied is kept in `PRAGMA user_version`.
 *
 * `jobs.state` and `lanes.state` are small integers (see state.ts and lanes.ts): the hot partial indexes hang on them.
 * `jobs.due` is when the state's own time comes: wall clock for `scheduled`, the store's clock for `retryable` (next run), `active`
 * (end of the lease), `available` (latest start, where there is one) and the final states (end of retention).
 */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE store (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;

   CREATE TABLE queues (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

   CREATE TABLE jobs (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL,
     task TEXT NOT NULL,
     queue INTEGER NOT NULL,
     state INTEGER NOT NULL,
     lane INTEGER NOT NULL,
     priority INTEGER NOT NULL,
     attempt INTEGER NOT NULL DEFAULT 0,
     max_attempts INTEGER NOT NULL,
     pushed_back INTEGER NOT NULL DEFAULT 0,
     created INTEGER NOT NULL,
     since INTEGER NOT NULL,
     due INTEGER,
     started INTEGER,
     finished INTEGER,
     worker INTEGER,
     cancelling INTEGER NOT NULL DEFAULT 0,
     expires INTEGER,
     weights TEXT,
     permits TEXT,
     unique_key TEXT,
     input TEXT NOT NULL,
     result TEXT,
     error TEXT,
     extra TEXT
   ) STRICT;
   CREATE UNIQUE INDEX jobs_id ON jobs (id);
   CREATE INDEX jobs_waiting ON jobs (lane, priority DESC, seq) WHERE state = 1;
   CREATE INDEX jobs_due ON jobs (state, due) WHERE due IS NOT NULL;
   CREATE INDEX jobs_parked ON jobs (lane) WHERE state IN (0, 4, 7);
   CREATE INDEX jobs_unique ON jobs (unique_key, seq) WHERE unique_key IS NOT NULL;

   CREATE TABLE lanes (
     id INTEGER PRIMARY KEY,
     key TEXT NOT NULL UNIQUE,
     queue INTEGER NOT NULL,
     buckets TEXT NOT NULL,
     state INTEGER NOT NULL DEFAULT 0,
     bucket INTEGER,
     over TEXT,
     deputy_of INTEGER,
     priority INTEGER NOT NULL DEFAULT 0,
     turn INTEGER NOT NULL DEFAULT 0,
     head INTEGER NOT NULL DEFAULT 0,
     emptied INTEGER
   ) STRICT;
   CREATE INDEX lanes_open ON lanes (queue, priority DESC, turn, head) WHERE state = 1;
   CREATE INDEX lanes_line ON lanes (bucket, queue, over, priority DESC, turn, head) WHERE state = 2;
   CREATE INDEX lanes_deputies ON lanes (deputy_of) WHERE deputy_of IS NOT NULL;
   CREATE INDEX lanes_emptied ON lanes (emptied) WHERE state = 0;

   CREATE TABLE buckets (
     id INTEGER PRIMARY KEY,
     limit_name TEXT NOT NULL,
     key TEXT NOT NULL,
     state TEXT,
     revision INTEGER NOT NULL DEFAULT 0,
     active INTEGER NOT NULL DEFAULT 0,
     lanes INTEGER NOT NULL DEFAULT 0,
     wake_at INTEGER,
     touched INTEGER NOT NULL DEFAULT 0,
     UNIQUE (limit_name, key)
   ) STRICT;
   CREATE INDEX buckets_wake ON buckets (wake_at) WHERE wake_at IS NOT NULL;
   CREATE INDEX buckets_idle ON buckets (touched) WHERE lanes = 0;

   CREATE TABLE limits (
     name TEXT NOT NULL,
     revision INTEGER NOT NULL,
     policy TEXT NOT NULL,
     version INTEGER NOT NULL,
     since INTEGER NOT NULL,
     PRIMARY KEY (name, revision)
   ) STRICT, WITHOUT ROWID;

   CREATE TABLE workers (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     boot TEXT NOT NULL,
     pid INTEGER NOT NULL,
     born TEXT NOT NULL,
     queues TEXT NOT NULL,
     alive_until INTEGER NOT NULL
   ) STRICT;`,

  // Times in `schedules` are the wall clock's where `wall` is 1, else the store's; `anchor` is a due time, and `anchor_wall` is what the wall
  // clock showed then. `catch_up_to` is set while missed occurrences wait for the end of the last job.
  `CREATE TABLE schedules (
     name TEXT PRIMARY KEY,
     spec TEXT NOT NULL,
     wall INTEGER NOT NULL,
     anchor INTEGER NOT NULL,
     anchor_wall INTEGER NOT NULL,
     next_at INTEGER,
     catch_up_to INTEGER,
     runs INTEGER NOT NULL DEFAULT 0,
     last_due INTEGER,
     last_job TEXT
   ) STRICT;
   CREATE INDEX schedules_due ON schedules (wall, next_at) WHERE catch_up_to IS NULL AND next_at IS NOT NULL;
   CREATE INDEX schedules_held ON schedules (last_job) WHERE catch_up_to IS NOT NULL;
   ALTER TABLE jobs ADD COLUMN schedule TEXT;
   ALTER TABLE jobs ADD COLUMN occurs INTEGER;
   ALTER TABLE workers ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;`,
  // Beside its definitions, what changed a limit: numbered together with them. A key of NULL means all keys, a change of NULL the end.
  `CREATE TABLE overrides (
     name TEXT NOT NULL,
     revision INTEGER NOT NULL,
     kind TEXT NOT NULL,
     key TEXT,
     change TEXT,
     since INTEGER NOT NULL,
     until INTEGER,
     author TEXT,
     reason TEXT,
     PRIMARY KEY (name, revision)
   ) STRICT, WITHOUT ROWID;`,
  // Under ageing `jobs.priority` is what a job is ordered by, and `asked` the priority that it was given; NULL: they are the same.
  // Turns: a lane has `share` starts in a row, of which it has `taken` so many. `fair` is the key that splits lanes beside their buckets;
  // those are found by their buckets, where others are by their name.
  `ALTER TABLE lanes ADD COLUMN share INTEGER NOT NULL DEFAULT 1;
   ALTER TABLE lanes ADD COLUMN taken INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE lanes ADD COLUMN fair TEXT;
   CREATE INDEX lanes_fair ON lanes (buckets) WHERE fair IS NOT NULL;
   ALTER TABLE jobs ADD COLUMN asked INTEGER;`,
  // Jobs that waited for a bucket and have started since it was last told of, and when that was; `told` is NULL while nobody waits.
  `ALTER TABLE buckets ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE buckets ADD COLUMN told INTEGER;`,
  // How far a lane was sifted for jobs that come too late (policy/admission/scan-cursor.ts), and when those that a limit put off are expected to start, on
  // the store's clock: they keep their place in the lane, and until then they are shown as scheduled.
  `ALTER TABLE lanes ADD COLUMN sieve TEXT;
   ALTER TABLE jobs ADD COLUMN booked INTEGER;`,
  // A view is one worker's lane over the jobs of another one, `base` (views.ts).
  `ALTER TABLE lanes ADD COLUMN base INTEGER;
   ALTER TABLE lanes ADD COLUMN worker INTEGER;
   CREATE INDEX lanes_views ON lanes (base) WHERE base IS NOT NULL;
   CREATE INDEX lanes_of_worker ON lanes (worker) WHERE worker IS NOT NULL;
   CREATE INDEX lanes_spread ON lanes (id) WHERE state = 3;
   ALTER TABLE buckets ADD COLUMN worker INTEGER NOT NULL DEFAULT 0;
   DROP INDEX buckets_wake;
   CREATE INDEX buckets_due ON buckets (worker, wake_at) WHERE wake_at IS NOT NULL;`,
  // What work from outside needs: a job's own lease, timeout and history, workers without a process here, queues as things of their own.
  `ALTER TABLE jobs ADD COLUMN lease INTEGER;
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
   CREATE UNIQUE INDEX workers_name ON workers (name) WHERE name IS NOT NULL;`,
  // A flow's jobs: `node` is the place among them, `waits` how many have yet to complete before it, `plan` what its lane will be made of when
  // its time comes. Their `due` is empty once they have ended: they are kept as long as their flow. `bytes` is what all results come to.
  `CREATE TABLE flows (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL,
     kind TEXT NOT NULL,
     name TEXT,
     state INTEGER NOT NULL DEFAULT 0,
     total INTEGER NOT NULL,
     edges INTEGER NOT NULL,
     completed INTEGER NOT NULL DEFAULT 0,
     discarded INTEGER NOT NULL DEFAULT 0,
     cancelled INTEGER NOT NULL DEFAULT 0,
     bytes INTEGER NOT NULL DEFAULT 0,
     created INTEGER NOT NULL,
     finished INTEGER,
     due INTEGER,
     extra TEXT
   ) STRICT;
   CREATE UNIQUE INDEX flows_id ON flows (id);
   CREATE INDEX flows_due ON flows (due) WHERE due IS NOT NULL;
   CREATE TABLE flow_edges (
     flow INTEGER NOT NULL,
     before INTEGER NOT NULL,
     node INTEGER NOT NULL,
     PRIMARY KEY (flow, before, node)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX flow_edges_back ON flow_edges (flow, node);
   ALTER TABLE jobs ADD COLUMN flow INTEGER;
   ALTER TABLE jobs ADD COLUMN node INTEGER;
   ALTER TABLE jobs ADD COLUMN waits INTEGER;
   ALTER TABLE jobs ADD COLUMN plan TEXT;
   CREATE UNIQUE INDEX jobs_flow ON jobs (flow, node) WHERE flow IS NOT NULL;`,
  // Every job stands in one of jobs_waiting, jobs_due and jobs_undue, so that jobs are counted without reading any (counts.ts).
  `DROP INDEX jobs_due;
   CREATE INDEX jobs_due ON jobs (state, due, queue) WHERE due IS NOT NULL;
   CREATE INDEX jobs_undue ON jobs (state, queue) WHERE due IS NULL AND state <> 1;
   CREATE INDEX jobs_booked ON jobs (queue, booked, state) WHERE booked IS NOT NULL;`,
  // No instant is from 2200 on (base/instant.ts): what an earlier version has taken in cannot be read, and is as far ahead as may be.
  `UPDATE jobs SET due = ${END_OF_TIME_US} WHERE due > ${END_OF_TIME_US};
   UPDATE jobs SET expires = ${END_OF_TIME_US} WHERE expires > ${END_OF_TIME_US};
   UPDATE jobs SET due = 0 WHERE due < 0;
   UPDATE jobs SET expires = 0 WHERE expires < 0;`,
  // The limits that code gives to a queue as a whole: every claim reads them, whoever makes it.
  `ALTER TABLE queues ADD COLUMN limits TEXT;
   ALTER TABLE queues ADD COLUMN limits_version INTEGER;`,
  // Who changed what through a server.
  `CREATE TABLE audit (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     at INTEGER NOT NULL,
     who TEXT NOT NULL,
     tenant TEXT NOT NULL,
     action TEXT NOT NULL,
     subject TEXT NOT NULL,
     detail TEXT NOT NULL
   ) STRICT;`,
  // Which tasks a worker lists, NULL: any. The waiting jobs of a lane by their task are read where some of its first are of tasks that a
  // claimer does not list. A lane without any other is parked, with the sets of tasks that were looked for in it.
  `ALTER TABLE workers ADD COLUMN tasks TEXT;
   ALTER TABLE lanes ADD COLUMN passed TEXT;
   CREATE INDEX jobs_tasks ON jobs (lane, task, priority DESC, seq) WHERE state = 1;
   CREATE INDEX lanes_parked ON lanes (queue, passed, priority DESC, turn, head) WHERE state = 4;`,
  // Which claim from outside has started a job: what it took is given back when its answer was lost.
  'ALTER TABLE jobs ADD COLUMN claim TEXT;',
  // Made again where unlisted jobs are first met (unlisted-tasks.ts): with many keys at work, three quarters more were written for a job.
  'DROP INDEX IF EXISTS jobs_tasks',
  // Lanes that wait in another bucket's line and need one that drops, with what their first jobs ask of it (policy/admission/drop-watch.ts). Rows of
  // lanes that wait no more are passed over until the lane is written again.
  `CREATE TABLE drop_watch (
     lane INTEGER NOT NULL,
     bucket INTEGER NOT NULL,
     need INTEGER NOT NULL,
     PRIMARY KEY (lane, bucket)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX drop_watch_need ON drop_watch (bucket, need DESC, lane);`,
]
