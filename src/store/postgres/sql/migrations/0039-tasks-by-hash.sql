-- Two numbers in place of two texts: the entry of a waiting job takes half the space.
DROP INDEX IF EXISTS sluice.jobs_tasks;
CREATE INDEX jobs_tasks
ON sluice.jobs (hashtext(lane), hashtext(task), priority DESC, seq) WHERE state = 1;
