-- Over how many stripes the lanes of a queue are spread (functions/stripes.sql).
ALTER TABLE sluice.queues ADD COLUMN stripes smallint NOT NULL DEFAULT 1
CHECK (stripes BETWEEN 1 AND 64);
