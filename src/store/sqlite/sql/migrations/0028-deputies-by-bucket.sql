-- A decision reads the deputies of a wait list that wait for the buckets which it meets.
DROP INDEX lanes_deputies;
CREATE INDEX lanes_deputies ON lanes (deputy_of, bucket) WHERE deputy_of IS NOT NULL;
