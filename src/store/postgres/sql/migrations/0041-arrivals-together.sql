-- One row of `arrivals` for many lanes in which one call stored jobs: `firsts` has the first job of
-- each of `lanes`. A new lane has the limits of that job.
ALTER TABLE sluice.arrivals ADD COLUMN lanes text[] COLLATE "C", ADD COLUMN firsts bigint[];
