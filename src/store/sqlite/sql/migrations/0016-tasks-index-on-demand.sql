-- A claim makes this index when it first meets unlisted jobs (unlisted-tasks.ts): with many keys at
-- work, it made each job write three quarters more.
DROP INDEX IF EXISTS jobs_tasks;
