-- The tables of the SQLite store. `PRAGMA user_version` counts the migrations that were applied.
-- jobs.state and lanes.state are small integers (store/shared/state.ts): partial indexes name them.
-- jobs.due is the time that the job's state waits for. It is on the wall clock for `scheduled`, and
-- on the store's clock for `retryable` (next run), `active` (end of the lease), `available` (latest
-- start, if any) and the final states (end of retention).
CREATE TABLE store (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;

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
) STRICT;
