-- Times in `schedules` use the wall clock if `wall` is 1, otherwise the store's clock. `anchor` is
-- a due time, and `anchor_wall` the wall clock at that time. `catch_up_to` is set while missed
-- occurrences wait for the end of the last job.
CREATE TABLE schedules (
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
CREATE INDEX schedules_due ON schedules (wall, next_at)
  WHERE catch_up_to IS NULL AND next_at IS NOT NULL;
CREATE INDEX schedules_held ON schedules (last_job) WHERE catch_up_to IS NOT NULL;
ALTER TABLE jobs ADD COLUMN schedule TEXT;
ALTER TABLE jobs ADD COLUMN occurs INTEGER;
ALTER TABLE workers ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;
