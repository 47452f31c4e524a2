-- A view is one worker's lane over the jobs of another lane, `base` (views.ts).
ALTER TABLE lanes ADD COLUMN base INTEGER;
ALTER TABLE lanes ADD COLUMN worker INTEGER;
CREATE INDEX lanes_views ON lanes (base) WHERE base IS NOT NULL;
CREATE INDEX lanes_of_worker ON lanes (worker) WHERE worker IS NOT NULL;
CREATE INDEX lanes_spread ON lanes (id) WHERE state = 3;
ALTER TABLE buckets ADD COLUMN worker INTEGER NOT NULL DEFAULT 0;
DROP INDEX buckets_wake;
CREATE INDEX buckets_due ON buckets (worker, wake_at) WHERE wake_at IS NOT NULL;
