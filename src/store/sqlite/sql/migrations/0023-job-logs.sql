-- The last lines that the runs of a job have logged, as JSON. They go with their job.
CREATE TABLE job_logs (job TEXT PRIMARY KEY, lines TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER job_logs_go AFTER DELETE ON jobs BEGIN DELETE FROM job_logs WHERE job = old.id; END;
