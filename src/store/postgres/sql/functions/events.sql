-- Enables or disables the triggers that write events, and returns whether they are as wanted. The
-- caller holds the lock of the events. Writers wait for the lock of the tables, as do all behind
-- them, so it is tried for a short time only. It has the rights of its owner: no other role may
-- alter the tables.
CREATE OR REPLACE FUNCTION sluice.write_events(p_on boolean) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $f$
BEGIN
  IF sluice.writes_events() = p_on THEN RETURN true; END IF;
  LOCK TABLE sluice.jobs, sluice.flows IN SHARE ROW EXCLUSIVE MODE;
  IF p_on THEN
    ALTER TABLE sluice.jobs ENABLE TRIGGER job_stored, ENABLE TRIGGER job_moved;
    ALTER TABLE sluice.flows ENABLE TRIGGER flow_stored, ENABLE TRIGGER flow_moved;
  ELSE
    ALTER TABLE sluice.jobs DISABLE TRIGGER job_stored, DISABLE TRIGGER job_moved;
    ALTER TABLE sluice.flows DISABLE TRIGGER flow_stored, DISABLE TRIGGER flow_moved;
  END IF;
  RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN RETURN false;
END $f$;

CREATE OR REPLACE FUNCTION sluice.writes_events() RETURNS boolean LANGUAGE sql AS $f$
  SELECT tgenabled <> 'D' FROM pg_trigger
  WHERE tgrelid = 'sluice.jobs'::regclass AND tgname = 'job_moved'
$f$;
