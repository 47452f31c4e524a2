-- A clock that went back. Instants written before are then too late, and jobs would wait twice.

-- The last recorded time. Earlier steps that were already corrected do not count again.
CREATE OR REPLACE FUNCTION sluice.clock_seen() RETURNS bigint LANGUAGE plpgsql STABLE AS $f$
DECLARE v_data bigint; v_handled bigint;
BEGIN
  v_handled := (SELECT value::bigint FROM sluice.store WHERE name = 'stepped');
  v_data := greatest(
    (SELECT created FROM sluice.jobs ORDER BY seq DESC LIMIT 1),
    (SELECT max(anchor) FROM sluice.schedules WHERE NOT wall)
  );
  RETURN greatest(
    (SELECT value::bigint FROM sluice.store WHERE name = 'clock'),
    CASE WHEN v_data > coalesce(v_handled, 0) THEN v_data END, 0
  );
END $f$;

-- Compares the clock with the last recorded time. If it went back by a second or more, all instants
-- move back with it. Every wait list is evaluated again: buckets are corrected when they are
-- loaded. True: it went back.
--
-- Some instants were written since the step. Moved, they would be over, and a run that goes on
-- would be lost. So a lease keeps its length, or a minute at least, and so does a worker. The
-- latest start of a job moves if the job became available before the step for certain.
CREATE OR REPLACE FUNCTION sluice.check_clock() RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE
  v_now bigint; v_seen bigint; v_by bigint;
  c_minute CONSTANT bigint := 60000000;
BEGIN
  v_now := sluice.now_us();
  v_seen := sluice.clock_seen();
  IF v_seen <= v_now + 1000000 THEN
    INSERT INTO sluice.store (name, value)
    VALUES ('clock', v_now::text) ON CONFLICT (name) DO UPDATE SET value = excluded.value
    WHERE sluice.store.value::bigint < v_now - 1000000;
    RETURN false;
  END IF;
  -- One process does it for all; a second one finds it done.
  PERFORM pg_advisory_xact_lock(hashtext('sluice.limits'), 0);
  v_now := sluice.now_us();
  v_seen := sluice.clock_seen();
  IF v_seen <= v_now + 1000000 THEN RETURN false; END IF;
  v_by := v_seen - v_now;
  INSERT INTO sluice.store (name, value)
  VALUES ('stepped', v_seen::text) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
  INSERT INTO sluice.store (name, value)
  VALUES ('clock', v_now::text) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
  UPDATE sluice.jobs
  SET since = least(since, v_now), due = CASE
    WHEN state = {{job.active}}
      THEN greatest(due - v_by, least(due, v_now + greatest(leased, c_minute)))
    ELSE due - v_by
  END
  WHERE seq = ANY (ARRAY(
    SELECT seq FROM sluice.jobs
    WHERE (
      state IN ({{job.active}}, {{job.retryable}})
        OR (state = {{job.available}} AND due IS NOT NULL AND since > v_now)
    )
      AND due > v_now
    ORDER BY seq FOR UPDATE));
  UPDATE sluice.jobs
  SET booked = booked - v_by
  WHERE seq = ANY (
    ARRAY(
      SELECT seq FROM sluice.jobs WHERE state = {{job.available}} AND booked > v_now ORDER BY seq
      FOR UPDATE
    )
  );
  UPDATE sluice.workers
  SET alive_until = greatest(alive_until - v_by, least(alive_until, v_now + c_minute)),
    joined = least(joined, v_now)
  WHERE alive_until > v_now;
  UPDATE sluice.lanes SET turn = v_now WHERE turn > v_now;
  UPDATE sluice.lanes SET emptied = v_now WHERE emptied > v_now AND state = {{lane.empty}};
  UPDATE sluice.schedules
  SET next_at = next_at - (next_at - v_now) / (
    spec::json #>> '{recurrence,everyUs}'
  )::bigint * (spec::json #>> '{recurrence,everyUs}')::bigint
  WHERE NOT wall AND next_at - v_now > (spec::json #>> '{recurrence,everyUs}')::bigint;
  PERFORM sluice.wake_lines(ARRAY(SELECT id FROM sluice.buckets WHERE wake_at > v_now), v_now);
  RETURN true;
END $f$;
