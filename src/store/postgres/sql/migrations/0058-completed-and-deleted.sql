-- The end of a run deletes a job that is kept for no time. Readers of the events learn of it as of
-- any completion. No other statement deletes an active job.
CREATE FUNCTION sluice.note_deleted_job() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  INSERT INTO sluice.events (item, name, queue, was, state, attempt, created, ready, since, started)
  VALUES (
    OLD.id, OLD.task, OLD.queue, OLD.state, {{job.completed}}, OLD.attempt, OLD.created, OLD.since,
    sluice.now_us(), OLD.started
  );
  RETURN NULL;
END $f$;
REVOKE EXECUTE ON FUNCTION sluice.note_deleted_job() FROM PUBLIC;
CREATE TRIGGER job_deleted AFTER DELETE ON sluice.jobs FOR EACH ROW
  WHEN (OLD.state = {{job.active}}) EXECUTE FUNCTION sluice.note_deleted_job();
-- It writes while the others do.
DO $d$
BEGIN
  IF EXISTS (
    SELECT 1 FROM pg_trigger
    WHERE tgrelid = 'sluice.jobs'::regclass AND tgname = 'job_moved' AND tgenabled = 'D'
  ) THEN
    ALTER TABLE sluice.jobs DISABLE TRIGGER job_deleted;
  END IF;
END $d$;
