-- The last lines that the runs of a job have logged, as JSON. They go with their job.
CREATE TABLE sluice.job_logs (job uuid PRIMARY KEY, lines text NOT NULL);

CREATE FUNCTION sluice.drop_logs() RETURNS trigger LANGUAGE plpgsql {{by_index}} AS $f$
BEGIN
  DELETE FROM sluice.job_logs l USING gone g WHERE l.job = g.id;
  RETURN NULL;
END $f$;
CREATE TRIGGER job_logs_go AFTER DELETE ON sluice.jobs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION sluice.drop_logs();
