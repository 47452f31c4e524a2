-- The lanes of a bucket are found by their names. Only a fair key, which is not known, needs an
-- index, and most lanes have none: each claim wrote an entry for each lane that it moved.
DROP INDEX sluice.lanes_buckets;
CREATE INDEX lanes_fair ON sluice.lanes (buckets) WHERE fair IS NOT NULL;
