import { BY_INDEX } from './by-index.ts'

/** Enqueue only inserts, and locks nothing but unique keys: it may stand in a long transaction of the caller's and keep nobody waiting. */
export const ENQUEUE: string = `
-- p_run_at below 0: so many µs from now, by this clock and not by the caller's.
CREATE OR REPLACE FUNCTION sluice.insert_jobs(
  p_ids uuid[], p_tasks text[], p_queues text[], p_lanes text[], p_levels bigint[], p_max_attempts int[], p_run_at bigint[], p_expires bigint[],
  p_uses text[], p_weights text[], p_unique text[], p_inputs text[], p_extras text[], p_schedules text[], p_occurs bigint[],
  p_asked int[], p_fair text[], p_shares int[], p_terms json[] DEFAULT NULL
) RETURNS void LANGUAGE plpgsql ${BY_INDEX} AS $f$
DECLARE v_now bigint; v_wall bigint; v_bounded text[];
BEGIN
  v_bounded := ARRAY(SELECT name FROM sluice.queues WHERE bounds IS NOT NULL AND name = ANY (p_queues));
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  IF 0 > ANY (p_run_at) THEN p_run_at := ARRAY(SELECT CASE WHEN r < 0 THEN v_wall - r ELSE r END FROM unnest(p_run_at) WITH ORDINALITY u(r, n) ORDER BY n); END IF;
  WITH made AS (
    INSERT INTO sluice.jobs (id, task, queue, state, lane, priority, max_attempts, created, since, due, expires, uses, weights, unique_key, input, extra, schedule, occurs, asked, fair,
      lease, timeout, dead_letter, bounded)
    SELECT g.id, g.task, g.queue, CASE WHEN (g.terms ->> 3)::boolean THEN 5 WHEN g.run_at > v_wall THEN 0 ELSE 1 END, g.lane, g.level, g.max_attempts, v_now, v_now,
      CASE WHEN (g.terms ->> 3)::boolean THEN NULL WHEN g.run_at > v_wall THEN g.run_at WHEN g.uses IS NULL AND g.expires IS NULL THEN NULL ELSE sluice.latest_start(g.uses, g.expires, v_now, v_wall) END,
      g.expires, g.uses, g.weights, g.unique_key, g.input, g.extra, g.schedule, g.occurs, g.asked, g.fair,
      (g.terms ->> 0)::bigint, (g.terms ->> 1)::bigint, coalesce((g.terms ->> 2)::boolean, false), CASE WHEN g.queue = ANY (v_bounded) THEN true END
    FROM unnest(p_ids, p_tasks, p_queues, p_lanes, p_levels, p_max_attempts, p_run_at, p_expires, p_uses, p_weights, p_unique, p_inputs, p_extras, p_schedules, p_occurs, p_asked, p_fair, p_terms)
      WITH ORDINALITY g(id, task, queue, lane, level, max_attempts, run_at, expires, uses, weights, unique_key, input, extra, schedule, occurs, asked, fair, terms, n)
    ORDER BY g.n
    RETURNING seq, state, priority, queue, lane, uses, fair, due
  )
  -- Laid together with the shares and grouped, not joined: a plan for any number of lanes would compare each with each.
  INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look, level, first)
  SELECT min(m.queue), m.lane, min(m.uses), min(m.fair), (array_agg(m.share ORDER BY m.n DESC NULLS LAST))[1], bool_or(m.due IS NOT NULL AND m.state = 1),
    (array_agg(m.priority ORDER BY m.priority DESC NULLS LAST, m.seq))[1], (array_agg(m.seq ORDER BY m.priority DESC NULLS LAST, m.seq))[1]
  FROM (SELECT queue, lane, uses, fair, due, state, priority, seq, NULL::bigint AS n, NULL::int AS share FROM made WHERE uses IS NOT NULL AND (state = 1 OR p_shares IS NOT NULL)
    UNION ALL SELECT NULL, u.lane, NULL, NULL, NULL, NULL, NULL, NULL, u.n, u.share FROM unnest(p_lanes, p_shares) WITH ORDINALITY u(lane, share, n)) m
  GROUP BY m.lane HAVING min(m.uses) IS NOT NULL;
END $f$;

-- SL003: the pace at which priorities age is not what the caller reckoned by.
CREATE OR REPLACE FUNCTION sluice.check_ageing(p_ageing text) RETURNS void LANGUAGE plpgsql STABLE AS $f$
BEGIN
  IF (SELECT value FROM sluice.store WHERE name = 'ageing') IS DISTINCT FROM p_ageing THEN RAISE EXCEPTION 'the pace has changed' USING ERRCODE = 'SL003'; END IF;
END $f$;

-- The level of a job that another takes the place of: it keeps the steps that it has aged by (policy/admission/ageing.ts has the maths).
CREATE OR REPLACE FUNCTION sluice.level_of(p_priority int, p_level bigint, p_before bigint, p_reached int) RETURNS bigint LANGUAGE sql IMMUTABLE AS $f$
  SELECT p_priority - (((p_before - p_level) % 1099511627776) + 1099511627776) % 1099511627776 + CASE WHEN p_reached IS NULL THEN 0 ELSE 1099511627776 * (p_reached + 101) END $f$;

-- Callers that come with several keys lock them in the order of their numbers.
CREATE OR REPLACE FUNCTION sluice.lock_unique(p_keys text[]) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE number int;
BEGIN
  FOR number IN SELECT DISTINCT hashtext(k) FROM unnest(p_keys) k ORDER BY 1 LOOP
    PERFORM pg_advisory_xact_lock(hashtext('sluice.unique'), number);
  END LOOP;
END $f$;

-- Jobs of which some have unique keys, in order; each is an array as insert_jobs has its columns but the last, then the threshold that its priority reaches, conflict, states, within, terms.
CREATE OR REPLACE FUNCTION sluice.enqueue_unique(p_jobs json, p_cancelled_us bigint) RETURNS TABLE (kind text, id uuid) LANGUAGE plpgsql ${BY_INDEX} AS $f$
DECLARE job json; held record; conflict text; now bigint; v_wall bigint; v_states int[]; within bigint;
BEGIN
  PERFORM sluice.lock_unique(ARRAY(SELECT j ->> 10 FROM json_array_elements(p_jobs) j WHERE j ->> 10 IS NOT NULL));
  FOR job IN SELECT * FROM json_array_elements(p_jobs) LOOP
    now := sluice.now_us();
    v_wall := sluice.wall_us();
    conflict := job ->> 19;
    kind := 'created';
    id := (job ->> 0)::uuid;
    IF conflict IS NOT NULL THEN
      v_states := ARRAY(SELECT s::int FROM json_array_elements_text(job -> 20) s);
      within := (job ->> 21)::bigint;
      SELECT j.seq, j.id, j.state, j.queue, j.lane, j.uses, j.fair, j.priority, coalesce(j.asked, j.priority) AS asked INTO held FROM sluice.jobs j
      WHERE j.unique_key = job ->> 10 AND (CASE WHEN j.state = 1 AND j.booked > now THEN 0 ELSE j.state END) = ANY (v_states) AND (within IS NULL OR j.created > now - within) ORDER BY j.seq DESC LIMIT 1;
      IF FOUND AND conflict IN ('ignore', 'reject') THEN
        kind := CASE conflict WHEN 'reject' THEN 'conflict' ELSE 'duplicate' END;
        id := held.id;
        RETURN NEXT;
        CONTINUE;
      END IF;
      -- What has started is never changed: a new job is made.
      IF FOUND THEN
        SELECT j.seq, j.id, j.state, j.queue, j.lane, j.uses, j.fair, j.priority, coalesce(j.asked, j.priority) AS asked INTO held FROM sluice.jobs j WHERE j.seq = held.seq AND j.state IN (0, 1, 4, 5) FOR UPDATE;
      END IF;
      IF FOUND THEN
        IF held.state = 1 AND held.uses IS NOT NULL THEN
          INSERT INTO sluice.arrivals (queue, lane, uses, fair, look) VALUES (held.queue, held.lane, held.uses, held.fair, false);
        END IF;
        IF conflict = 'update' THEN
          UPDATE sluice.jobs j SET queue = job ->> 2, lane = job ->> 3, priority = sluice.level_of((job ->> 15)::int, held.priority, held.asked, (job ->> 18)::int),
            asked = nullif((job ->> 15)::int, sluice.level_of((job ->> 15)::int, held.priority, held.asked, (job ->> 18)::int)), fair = job ->> 16, expires = (job ->> 7)::bigint, max_attempts = (job ->> 5)::int, booked = NULL, uses = job ->> 8,
            weights = job ->> 9, input = job ->> 11, extra = job ->> 12, bounded = (SELECT true FROM sluice.queues q WHERE q.name = job ->> 2 AND q.bounds IS NOT NULL),
            lease = CASE WHEN job ->> 22 IS NULL THEN j.lease ELSE (job -> 22 ->> 0)::bigint END, timeout = CASE WHEN job ->> 22 IS NULL THEN j.timeout ELSE (job -> 22 ->> 1)::bigint END,
            dead_letter = CASE WHEN job ->> 22 IS NULL THEN j.dead_letter ELSE (job -> 22 ->> 2)::boolean END,
            due = CASE WHEN j.state = 1 THEN sluice.latest_start(job ->> 8, (job ->> 7)::bigint, now, v_wall) ELSE j.due END
          WHERE j.seq = held.seq;
          IF held.state = 1 AND job ->> 8 IS NOT NULL THEN
            INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look) VALUES (job ->> 2, job ->> 3, job ->> 8, job ->> 16, (job ->> 17)::int, true);
          END IF;
          kind := 'updated';
          id := held.id;
          RETURN NEXT;
          CONTINUE;
        END IF;
        UPDATE sluice.jobs j SET state = 6, finished = now, due = now + p_cancelled_us WHERE j.seq = held.seq;
      END IF;
    END IF;
    PERFORM sluice.insert_jobs(ARRAY[id], ARRAY[job ->> 1], ARRAY[job ->> 2], ARRAY[job ->> 3], ARRAY[(job ->> 4)::bigint], ARRAY[(job ->> 5)::int],
      ARRAY[(job ->> 6)::bigint], ARRAY[(job ->> 7)::bigint], ARRAY[job ->> 8], ARRAY[job ->> 9], ARRAY[job ->> 10], ARRAY[job ->> 11],
      ARRAY[job ->> 12], ARRAY[job ->> 13], ARRAY[(job ->> 14)::bigint],
      ARRAY[nullif((job ->> 15)::int, (job ->> 4)::bigint)::int], ARRAY[job ->> 16], ARRAY[(job ->> 17)::int],
      CASE WHEN job ->> 22 IS NOT NULL THEN ARRAY[job -> 22] END);
    RETURN NEXT;
  END LOOP;
END $f$;
`
