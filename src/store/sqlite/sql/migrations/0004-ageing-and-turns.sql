-- Under ageing jobs.priority orders jobs, and jobs.asked is the priority that the caller gave;
-- NULL: they are the same. A lane has `share` starts in a row and has `taken` that many. `fair` is
-- the key that splits lanes beside their buckets. Lanes with such a key are found by their buckets,
-- others by their name.
ALTER TABLE lanes ADD COLUMN share INTEGER NOT NULL DEFAULT 1;
ALTER TABLE lanes ADD COLUMN taken INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN fair TEXT;
CREATE INDEX lanes_fair ON lanes (buckets) WHERE fair IS NOT NULL;
ALTER TABLE jobs ADD COLUMN asked INTEGER;
