-- The parts of a claim's read set that few claims need. All are STABLE: they see what the statement
-- of `claim_look` sees that calls them.

-- The first job of each listed task in lanes with unlisted jobs.
CREATE OR REPLACE FUNCTION sluice.read_known_heads(
  p_ids bigint[], p_jobs text[], p_depths int[], p_tasks text[], p_skip bigint[]
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (
    SELECT json_agg(
      json_build_array(l.id, h.seq, h.priority, h.weights, h.attempt, h.since, h.given)
    )
    FROM unnest(p_ids, p_jobs, p_depths) l(id, jobs, depth),
      LATERAL sluice.known_heads(l.jobs, p_tasks, p_skip, l.depth) h
  );
END $f$;

-- The same of unlimited lanes. p_stripes: the stripes that the claim has chosen; null: every queue
-- has one stripe.
CREATE OR REPLACE FUNCTION sluice.read_known_line(
  p_line_of json, p_stripes text[], p_tasks text[], p_skip bigint[]
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (
    SELECT json_agg(
      json_build_array(
        q.value ->> {{unlimited.queue}}, h.seq, h.priority, h.weights, h.attempt, h.since, h.given
      )
    )
    FROM json_array_elements(p_line_of) q,
      LATERAL sluice.known_heads(
        q.value ->> {{unlimited.lane}}, p_tasks, p_skip, (q.value ->> {{unlimited.slots}})::int
      ) h
    WHERE p_stripes IS NULL
      OR sluice.lane_queue(
        q.value ->> {{unlimited.queue}}, q.value ->> {{unlimited.lane}}
      ) = ANY (p_stripes)
  );
END $f$;

-- The waiting jobs of lanes behind those of the last late scan. Two ranges instead of an OR, since
-- an OR would use only the lane of the index.
CREATE OR REPLACE FUNCTION sluice.read_behind(
  p_lanes bigint[], p_deep bigint[], p_heads int, p_deep_heads int, p_tasks text[], p_skip bigint[]
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (
    SELECT json_agg(
      json_build_array(
        l.id, h.seq, h.priority, h.weights, h.attempt, h.since, h.given, h.unlisted
      )
    )
    FROM sluice.lanes l,
      LATERAL (
        SELECT (l.sieve::json ->> {{scan_cursor.level}})::bigint AS level,
          (l.sieve::json ->> {{scan_cursor.seq}})::bigint AS seq,
          greatest(p_heads, CASE WHEN l.id = ANY (p_deep) THEN p_deep_heads END) AS count
      ) c,
      LATERAL (
        (
          SELECT j.seq, j.priority, j.weights, j.attempt, j.since,
            coalesce(j.asked, j.priority) AS given,
            CASE WHEN j.task <> ALL (p_tasks) THEN j.task END AS unlisted
          FROM sluice.jobs j
          WHERE j.lane = coalesce(l.base, l.key) AND j.state = {{job.available}}
            AND j.priority = c.level AND j.seq > c.seq AND j.seq <> ALL (p_skip)
          ORDER BY j.priority DESC, j.seq LIMIT c.count
        )
        UNION ALL (
          SELECT j.seq, j.priority, j.weights, j.attempt, j.since,
            coalesce(j.asked, j.priority) AS given,
            CASE WHEN j.task <> ALL (p_tasks) THEN j.task END AS unlisted
          FROM sluice.jobs j
          WHERE j.lane = coalesce(l.base, l.key) AND j.state = {{job.available}}
            AND j.priority < c.level AND j.seq <> ALL (p_skip)
          ORDER BY j.priority DESC, j.seq LIMIT c.count
        )
      ) h
    WHERE l.id = ANY (p_lanes) AND l.sieve IS NOT NULL
  );
END $f$;

-- The other live workers.
CREATE OR REPLACE FUNCTION sluice.read_other_workers(
  p_worker bigint, p_now bigint
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (
    SELECT json_agg(json_build_array(w.queues, w.tasks)) FROM sluice.workers w
    WHERE w.alive_until > p_now AND w.id <> p_worker
  );
END $f$;

-- The own queues of the other live workers.
CREATE OR REPLACE FUNCTION sluice.read_apart(
  p_worker bigint, p_now bigint
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (
    SELECT json_agg(sluice.own_queue(q, w.id)) FROM sluice.workers w, unnest(w.queues) q
    WHERE w.alive_until > p_now AND w.id <> p_worker
  );
END $f$;

-- The buckets of the starts that the claimer holds.
CREATE OR REPLACE FUNCTION sluice.read_holds(p_holds json) RETURNS json LANGUAGE plpgsql STABLE
AS $f$
BEGIN
  RETURN (
    SELECT json_agg(json_build_array(b.limit_name, b.key, b.state))
    FROM json_array_elements(p_holds) h
    JOIN sluice.buckets b
      ON b.limit_name = h ->> {{use.limit}} AND b.key = h ->> {{use.key}}
        AND b.worker = (h ->> {{use.worker}})::bigint
  );
END $f$;

-- Lanes that wait for another bucket and need one that drops: of these queues, and whether there
-- are others.
CREATE OR REPLACE FUNCTION sluice.read_watched(
  p_buckets bigint[], p_queues text[], p_most int
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (
    SELECT json_agg(json_build_array(d.bucket, d.need, d.lane, d.queue = ANY (p_queues)))
    FROM unnest(p_buckets) b,
      LATERAL (
        SELECT w.bucket, w.need, w.lane, l.queue FROM sluice.drop_watch w
        JOIN sluice.lanes l ON l.id = w.lane
        WHERE w.bucket = b AND l.state = {{lane.waiting}} AND l.bucket <> b
        ORDER BY w.need DESC, w.lane LIMIT p_most
      ) d
  );
END $f$;
