-- Enables or disables the triggers that write events, and returns whether they are as wanted. The
-- caller holds the lock of the events. Writers wait for the lock of the tables, as do all behind
-- them, so it is tried for a short time only. It has the rights of its owner, since no other role
-- may alter the tables, and serves the roles that may write the readers. `current_user` is its
-- owner here, and `session_user` is not the role that SET ROLE chose.
CREATE OR REPLACE FUNCTION sluice.write_events(p_on boolean) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $f$
DECLARE
  v_role name := coalesce(nullif(current_setting('role'), 'none'), session_user);
  v_right text := CASE WHEN p_on THEN 'INSERT' ELSE 'DELETE' END;
BEGIN
  IF NOT has_table_privilege(v_role, 'sluice.event_readers', v_right) THEN
    RAISE insufficient_privilege USING
      MESSAGE = format('role %s may not start or stop the events of the fleet', v_role),
      HINT = format('Grant it %s on the table event_readers.', v_right);
  END IF;
  IF sluice.writes_events() = p_on THEN RETURN true; END IF;
  LOCK TABLE sluice.jobs, sluice.flows IN SHARE ROW EXCLUSIVE MODE;
  IF p_on THEN
    ALTER TABLE sluice.jobs ENABLE TRIGGER job_stored, ENABLE TRIGGER job_moved,
      ENABLE TRIGGER job_deleted;
    ALTER TABLE sluice.flows ENABLE TRIGGER flow_stored, ENABLE TRIGGER flow_moved;
  ELSE
    ALTER TABLE sluice.jobs DISABLE TRIGGER job_stored, DISABLE TRIGGER job_moved,
      DISABLE TRIGGER job_deleted;
    ALTER TABLE sluice.flows DISABLE TRIGGER flow_stored, DISABLE TRIGGER flow_moved;
  END IF;
  RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN RETURN false;
END $f$;

CREATE OR REPLACE FUNCTION sluice.writes_events() RETURNS boolean LANGUAGE sql AS $f$
  SELECT tgenabled <> 'D' FROM pg_trigger
  WHERE tgrelid = 'sluice.jobs'::regclass AND tgname = 'job_moved'
$f$;
