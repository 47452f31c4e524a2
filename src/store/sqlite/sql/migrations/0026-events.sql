-- Events for subscribers in other processes (store/shared/event-log.ts). Triggers write them, which
-- exist while a reader lives (store/sqlite/event-log.ts). `was` is null for a new row. `ready` is
-- when the job began to wait for this run. A flow has a kind and no queue. `failed`: a run added an
-- error to the job.
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  item TEXT NOT NULL,
  name TEXT,
  queue INTEGER,
  kind TEXT,
  was INTEGER,
  state INTEGER NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0,
  jobs INTEGER,
  created INTEGER NOT NULL,
  ready INTEGER,
  since INTEGER,
  started INTEGER,
  due INTEGER,
  failed INTEGER NOT NULL DEFAULT 0,
  error TEXT
) STRICT;

-- `position` is the last event that the reader has read. `until` is the end of its lease. `behind`:
-- events that it had not read were deleted.
CREATE TABLE event_readers (
  id TEXT PRIMARY KEY, position TEXT NOT NULL, until INTEGER NOT NULL,
  behind INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
