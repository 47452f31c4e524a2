-- Jobs that waited for a bucket and have started since it was last reported, at `told`; NULL while
-- no job waits.
ALTER TABLE buckets ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
ALTER TABLE buckets ADD COLUMN told INTEGER;
