-- Whether a lane has waiting jobs, and neither a claimer with these tasks nor another worker can
-- start any of them: one index probe for each of its tasks. The caller skips lanes with many tasks.
-- The index has the hashes of lanes and tasks. A task with the hash of the one before it is not
-- seen, so a task with the hash of one of the claimer's leaves the lane to the decision. The lane's
-- name is compared so that no other index fits.
CREATE OR REPLACE FUNCTION sluice.is_unlisted(
  p_queue text, p_lane text, p_tasks text[], p_worker bigint, p_now bigint
) RETURNS boolean LANGUAGE plpgsql STABLE AS $f$
DECLARE v_task text; v_hash bigint := -2147483649; v_queue text := sluice.shared_queue(p_queue);
BEGIN
  FOR n IN 1 .. 16 LOOP
    SELECT j.task, hashtext(j.task) INTO v_task, v_hash FROM sluice.jobs j
    WHERE hashtext(j.lane) = hashtext(p_lane) AND j.lane || '' = p_lane
      AND j.state = {{job.available}} AND hashtext(j.task) > v_hash
    ORDER BY hashtext(j.task) LIMIT 1;
    IF NOT FOUND THEN RETURN n > 1; END IF;
    IF EXISTS (SELECT 1 FROM unnest(p_tasks) t WHERE hashtext(t) = v_hash)
      OR EXISTS (
        SELECT 1 FROM sluice.workers w
        WHERE w.alive_until > p_now AND w.id <> p_worker AND v_queue = ANY (w.queues)
          AND (w.tasks IS NULL OR v_task = ANY (w.tasks))
      )
    THEN RETURN false; END IF;
  END LOOP;
  RETURN false;
END $f$;

-- The same for open lanes, p_count of each queue at most: lanes of workers that have gone. Returns
-- their kinds.
CREATE OR REPLACE FUNCTION sluice.park_unlisted(
  p_queues text[], p_tasks text[], p_known text, p_worker bigint, p_count int
) RETURNS json LANGUAGE plpgsql {{by_order}} AS $f$
DECLARE v_now bigint; v_ids bigint[]; v_unknown json; v_names text[];
BEGIN
  IF p_tasks IS NULL THEN RETURN NULL; END IF;
  PERFORM sluice.lock_queues(p_queues);
  v_now := sluice.now_us();
  v_names := sluice.stripes(p_queues);
  v_ids := ARRAY(
    SELECT o.id
    FROM unnest(v_names || ARRAY(SELECT sluice.own_queue(q, p_worker) FROM unnest(v_names) q)) q,
      LATERAL (
        SELECT l.id, l.queue, coalesce(l.base, l.key) AS lane FROM sluice.lanes l
        WHERE l.queue = q AND l.state = {{lane.open}} ORDER BY l.priority DESC, l.turn, l.head
        LIMIT p_count
      ) o
    WHERE sluice.is_unlisted(o.queue, o.lane, p_tasks, p_worker, v_now)
  );
  UPDATE sluice.lanes
  SET state = {{lane.parked}}, passed = p_known, sieve = NULL
  WHERE id = ANY (v_ids);
  SELECT json_agg(u) INTO v_unknown
  FROM (
    SELECT DISTINCT sluice.shared_queue(l.queue) AS queue, h.task
    FROM sluice.lanes l,
      LATERAL (
        SELECT j.task FROM sluice.jobs j
        WHERE j.lane = coalesce(l.base, l.key) AND j.state = {{job.available}}
        ORDER BY j.priority DESC, j.seq LIMIT 1
      ) h
    WHERE l.id = ANY (v_ids)
  ) u;
  RETURN v_unknown;
END $f$;

-- Parked lanes in which claimers with other tasks found nothing; one index probe for each task set.
-- p_known: the name of the claimer's own set; null: it takes any.
CREATE OR REPLACE FUNCTION sluice.parked_lanes(
  p_queues text[], p_known text, p_count int
) RETURNS bigint[] LANGUAGE plpgsql STABLE {{by_order}} AS $f$
DECLARE v_queue text; v_passed text; v_found bigint[] := '{}';
BEGIN
  FOREACH v_queue IN ARRAY p_queues LOOP
    v_passed := '';
    LOOP
      SELECT l.passed INTO v_passed FROM sluice.lanes l
      WHERE l.queue = v_queue AND l.state = {{lane.parked}} AND l.passed > v_passed
      ORDER BY l.passed LIMIT 1;
      EXIT WHEN NOT FOUND;
      CONTINUE WHEN p_known = ANY (string_to_array(v_passed, ' '));
      v_found := v_found || ARRAY(
        SELECT l.id FROM sluice.lanes l
        WHERE l.queue = v_queue AND l.state = {{lane.parked}} AND l.passed = v_passed
        ORDER BY l.priority DESC, l.turn, l.head LIMIT p_count
      );
    END LOOP;
  END LOOP;
  RETURN v_found;
END $f$;

-- The waiting jobs at the front of a lane whose tasks are listed: the first of each task, if any of
-- the lane's first jobs is unlisted.
CREATE
  OR REPLACE FUNCTION sluice.known_heads(p_lane text, p_tasks text[], p_skip bigint[], p_count int)
RETURNS TABLE (
  seq bigint, priority bigint, weights text, attempt int, since bigint, given bigint
) LANGUAGE plpgsql STABLE
{{by_order}} AS $f$
BEGIN
  IF EXISTS (
    SELECT 1
    FROM (
      SELECT j.task FROM sluice.jobs j
      WHERE j.lane = p_lane AND j.state = {{job.available}} AND j.seq <> ALL (p_skip)
      ORDER BY j.priority DESC, j.seq LIMIT p_count
    ) f
    WHERE f.task <> ALL (p_tasks)
  ) THEN
    RETURN QUERY SELECT h.* FROM unnest(p_tasks) t(task), LATERAL (
      SELECT j.seq, j.priority, j.weights, j.attempt, j.since, coalesce(j.asked, j.priority)
      FROM sluice.jobs j
      WHERE hashtext(j.lane) = hashtext(p_lane) AND j.lane || '' = p_lane
        AND j.state = {{job.available}} AND hashtext(j.task) = hashtext(t.task) AND j.task = t.task
        AND j.seq <> ALL (p_skip)
      ORDER BY j.priority DESC, j.seq LIMIT p_count) h;
  END IF;
END $f$;
