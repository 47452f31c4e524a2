/** Enqueue only inserts, and locks nothing but unique keys: it may stand in a long transaction of the caller's and keep nobody waiting. */
export const ENQUEUE = `
CREATE FUNCTION sluice.insert_jobs(
  p_ids uuid[], p_tasks text[], p_queues text[], p_lanes text[], p_priorities int[], p_max_attempts int[], p_run_at bigint[], p_expires bigint[],
  p_uses text[], p_weights text[], p_unique text[], p_inputs text[], p_extras text[], p_schedules text[], p_occurs bigint[]
) RETURNS void LANGUAGE plpgsql SET jit = off AS $f$
DECLARE v_now bigint; v_wall bigint;
BEGIN
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  WITH made AS (
    INSERT INTO sluice.jobs (id, task, queue, state, lane, priority, max_attempts, created, since, due, expires, uses, weights, unique_key, input, extra, schedule, occurs)
    SELECT g.id, g.task, g.queue, CASE WHEN g.run_at > v_wall THEN 0 ELSE 1 END, g.lane, g.priority, g.max_attempts, v_now, v_now,
      CASE WHEN g.run_at > v_wall THEN g.run_at WHEN g.uses IS NULL AND g.expires IS NULL THEN NULL ELSE sluice.latest_start(g.uses, g.expires, v_now, v_wall) END,
      g.expires, g.uses, g.weights, g.unique_key, g.input, g.extra, g.schedule, g.occurs
    FROM unnest(p_ids, p_tasks, p_queues, p_lanes, p_priorities, p_max_attempts, p_run_at, p_expires, p_uses, p_weights, p_unique, p_inputs, p_extras, p_schedules, p_occurs)
      WITH ORDINALITY g(id, task, queue, lane, priority, max_attempts, run_at, expires, uses, weights, unique_key, input, extra, schedule, occurs, n)
    ORDER BY g.n
    RETURNING state, queue, lane, uses, due
  )
  INSERT INTO sluice.arrivals (queue, lane, uses, look)
  SELECT queue, lane, min(uses), bool_or(due IS NOT NULL) FROM made WHERE state = 1 AND uses IS NOT NULL GROUP BY queue, lane;
END $f$;

-- Callers that come with several keys lock them in the order of their numbers.
CREATE FUNCTION sluice.lock_unique(p_keys text[]) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE number int;
BEGIN
  FOR number IN SELECT DISTINCT hashtext(k) FROM unnest(p_keys) k ORDER BY 1 LOOP
    PERFORM pg_advisory_xact_lock(hashtext('sluice.unique'), number);
  END LOOP;
END $f$;

-- Jobs of which some have unique keys, in order; each is an array as insert_jobs has its columns, then conflict, states, within.
CREATE FUNCTION sluice.enqueue_unique(p_jobs json, p_cancelled_us bigint) RETURNS TABLE (kind text, id uuid) LANGUAGE plpgsql SET jit = off AS $f$
DECLARE job json; held record; conflict text; now bigint; v_wall bigint; v_states int[]; within bigint;
BEGIN
  PERFORM sluice.lock_unique(ARRAY(SELECT j ->> 10 FROM json_array_elements(p_jobs) j WHERE j ->> 10 IS NOT NULL));
  FOR job IN SELECT * FROM json_array_elements(p_jobs) LOOP
    now := sluice.now_us();
    v_wall := sluice.wall_us();
    conflict := job ->> 15;
    kind := 'created';
    id := (job ->> 0)::uuid;
    IF conflict IS NOT NULL THEN
      v_states := ARRAY(SELECT s::int FROM json_array_elements_text(job -> 16) s);
      within := (job ->> 17)::bigint;
      SELECT j.seq, j.id, j.state, j.queue, j.lane, j.uses INTO held FROM sluice.jobs j
      WHERE j.unique_key = job ->> 10 AND j.state = ANY (v_states) AND (within IS NULL OR j.created > now - within) ORDER BY j.seq DESC LIMIT 1;
      IF FOUND AND conflict IN ('ignore', 'reject') THEN
        kind := CASE conflict WHEN 'reject' THEN 'conflict' ELSE 'duplicate' END;
        id := held.id;
        RETURN NEXT;
        CONTINUE;
      END IF;
      -- What has started is never changed: a new job is made.
      IF FOUND THEN
        SELECT j.seq, j.id, j.state, j.queue, j.lane, j.uses INTO held FROM sluice.jobs j WHERE j.seq = held.seq AND j.state IN (0, 1, 4, 5) FOR UPDATE;
      END IF;
      IF FOUND THEN
        IF held.state = 1 AND held.uses IS NOT NULL THEN
          INSERT INTO sluice.arrivals (queue, lane, uses, look) VALUES (held.queue, held.lane, held.uses, false);
        END IF;
        IF conflict = 'update' THEN
          UPDATE sluice.jobs j SET queue = job ->> 2, lane = job ->> 3, priority = (job ->> 4)::int, max_attempts = (job ->> 5)::int, uses = job ->> 8,
            weights = job ->> 9, input = job ->> 11, extra = job ->> 12,
            due = CASE WHEN j.state = 1 THEN sluice.latest_start(job ->> 8, (job ->> 7)::bigint, now, v_wall) ELSE j.due END
          WHERE j.seq = held.seq;
          IF held.state = 1 AND job ->> 8 IS NOT NULL THEN
            INSERT INTO sluice.arrivals (queue, lane, uses, look) VALUES (job ->> 2, job ->> 3, job ->> 8, true);
          END IF;
          kind := 'updated';
          id := held.id;
          RETURN NEXT;
          CONTINUE;
        END IF;
        UPDATE sluice.jobs j SET state = 6, finished = now, due = now + p_cancelled_us WHERE j.seq = held.seq;
      END IF;
    END IF;
    PERFORM sluice.insert_jobs(ARRAY[id], ARRAY[job ->> 1], ARRAY[job ->> 2], ARRAY[job ->> 3], ARRAY[(job ->> 4)::int], ARRAY[(job ->> 5)::int],
      ARRAY[(job ->> 6)::bigint], ARRAY[(job ->> 7)::bigint], ARRAY[job ->> 8], ARRAY[job ->> 9], ARRAY[job ->> 10], ARRAY[job ->> 11],
      ARRAY[job ->> 12], ARRAY[job ->> 13], ARRAY[(job ->> 14)::bigint]);
    RETURN NEXT;
  END LOOP;
END $f$;
`
