-- Whether a job may come back to a lane. Nearly no job has limits and is away, so that few writes
-- have an entry. Those of running jobs are too many: they are found by their leases.
CREATE INDEX jobs_away ON sluice.jobs (hashtext(lane))
WHERE state IN (0, 4, 5, 7) AND uses IS NOT NULL;
