-- Every job stands in one of jobs_waiting, jobs_due and jobs_undue, so that jobs are counted
-- without reading any (counts.ts).
DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (state, due, queue) WHERE due IS NOT NULL;
CREATE INDEX jobs_undue ON jobs (state, queue) WHERE due IS NULL AND state <> 1;
CREATE INDEX jobs_booked ON jobs (queue, booked, state) WHERE booked IS NOT NULL;
