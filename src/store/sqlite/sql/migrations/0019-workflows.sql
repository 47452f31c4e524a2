-- Workflow flows (store/shared/workflows). `key` is at most one running flow's of a name. `open`
-- counts side jobs and attached children that have yet to end, `events` their ends and signals.
-- `held` are permits that the flow keeps until it ends, as an array of buckets. `kept` and `bytes`
-- are what side jobs have made it remember; those of the main job are in its row.
ALTER TABLE flows ADD COLUMN key TEXT;
ALTER TABLE flows ADD COLUMN hash TEXT;
ALTER TABLE flows ADD COLUMN definition TEXT;
ALTER TABLE flows ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE flows ADD COLUMN parent INTEGER;
ALTER TABLE flows ADD COLUMN parent_step TEXT;
ALTER TABLE flows ADD COLUMN parent_generation INTEGER;
ALTER TABLE flows ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE flows ADD COLUMN error TEXT;
ALTER TABLE flows ADD COLUMN held TEXT;
ALTER TABLE flows ADD COLUMN open INTEGER NOT NULL DEFAULT 0;
ALTER TABLE flows ADD COLUMN events INTEGER NOT NULL DEFAULT 0;
ALTER TABLE flows ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX flows_key ON flows (name, key) WHERE key IS NOT NULL AND state = 0;
CREATE INDEX flows_parent ON flows (parent) WHERE parent IS NOT NULL;

-- `step` is the step that the job's next start grants. `moves` tells its runs apart. `awaits` is
-- set while a main job is parked. A parked job is `pending`, or `retryable` if a time wakes it too.
-- Its row already has the place where it will wait.
ALTER TABLE jobs ADD COLUMN step TEXT;
ALTER TABLE jobs ADD COLUMN item INTEGER;
ALTER TABLE jobs ADD COLUMN moves INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN awaits TEXT;
ALTER TABLE jobs ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

-- `at` is the order of first writing. An open step has the place `node` of its first side job, and
-- `items` of them; a map has `remaining` that have yet to end. A child's step has the node 0.
CREATE TABLE flow_steps (
  at INTEGER PRIMARY KEY,
  flow INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  result TEXT,
  error TEXT,
  attempt INTEGER NOT NULL,
  started INTEGER,
  finished INTEGER,
  waited INTEGER NOT NULL,
  waited_for TEXT,
  due INTEGER,
  input TEXT,
  node INTEGER,
  items INTEGER,
  remaining INTEGER
) STRICT;
CREATE UNIQUE INDEX flow_steps_name ON flow_steps (flow, generation, name);

-- A signal that was read loses its payload, and stays if it must not be sent again.
CREATE TABLE flow_signals (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  flow INTEGER NOT NULL,
  name TEXT NOT NULL,
  payload TEXT,
  once TEXT
) STRICT;
CREATE INDEX flow_signals_unread ON flow_signals (flow, seq) WHERE payload IS NOT NULL;
CREATE UNIQUE INDEX flow_signals_once ON flow_signals (flow, once) WHERE once IS NOT NULL;
