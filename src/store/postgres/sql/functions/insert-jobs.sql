-- An enqueue only inserts, and locks only unique keys: in a caller's long transaction it blocks no
-- other process.

-- p_flows and what follows are the places of jobs of workflow flows.
-- p_run_at below 0: that many µs from now, on this clock instead of the caller's. p_worker: the
-- worker at which jobs without limits and times start at once. Returns when the jobs were stored,
-- by the store's clock and by the wall clock, and the numbers of jobs that start.
CREATE OR REPLACE FUNCTION sluice.insert_jobs(
  p_ids uuid[], p_tasks text[], p_queues text[], p_lanes text[], p_levels bigint[],
  p_max_attempts int[], p_run_at bigint[], p_expires bigint[],
  p_uses text[], p_weights text[], p_unique text[], p_inputs text[], p_extras text[],
  p_schedules text[], p_occurs bigint[],
  p_asked int[], p_fair text[], p_shares int[], p_terms json[] DEFAULT NULL,
  p_flows bigint[] DEFAULT NULL, p_nodes int[] DEFAULT NULL, p_steps text[] DEFAULT NULL,
  p_items int[] DEFAULT NULL, p_attempts int[] DEFAULT NULL,
  p_worker bigint DEFAULT NULL, p_lease_us bigint DEFAULT NULL, p_claim uuid DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE
  v_now bigint; v_wall bigint; v_bounded text[]; v_striped text[];
  -- A call of latest_start for each job takes a tenth of an insert.
  v_waits boolean := EXISTS (SELECT 1 FROM sluice.max_waits);
BEGIN
  SELECT array_agg(name) FILTER (WHERE bounds IS NOT NULL),
    coalesce(array_agg(name) FILTER (WHERE stripes > 1), '{}')
  INTO v_bounded, v_striped
  FROM sluice.queues WHERE (bounds IS NOT NULL OR stripes > 1) AND name = ANY (p_queues);
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  IF p_worker IS NOT NULL THEN
    RETURN ARRAY[v_now, v_wall] || sluice.insert_started(
      p_ids, p_tasks, p_queues, p_lanes, p_levels, p_max_attempts, p_inputs, p_extras, p_asked,
      p_flows, p_nodes, p_steps, v_bounded, p_worker, p_lease_us, p_claim, v_now
    );
  END IF;
  IF 0 > ANY (p_run_at) THEN
    p_run_at := ARRAY(
      SELECT CASE WHEN r < 0 THEN v_wall - r ELSE r END
      FROM unnest(p_run_at) WITH ORDINALITY u(r, n) ORDER BY n
    );
  END IF;
  -- Jobs without limits and times may start at once: there is nothing to announce, and nothing to
  -- compute for each. An empty column says that no job has a value there.
  IF cardinality(p_uses) = 0 AND cardinality(p_run_at) = 0 AND cardinality(p_expires) = 0
    AND cardinality(p_terms) = 0 AND p_flows IS NULL
  THEN
    INSERT INTO sluice.jobs (
      id, task, queue, state, lane, priority, max_attempts, created, since, unique_key, input,
      extra, schedule, occurs, asked, fair, bounded
    )
    SELECT g.id, g.task, g.queue, {{job.available}}, g.lane, g.level, g.max_attempts, v_now, v_now,
      g.unique_key, g.input, g.extra, g.schedule, g.occurs, g.asked, g.fair,
      CASE WHEN g.queue = ANY (v_bounded) THEN true END
    FROM unnest(
      p_ids, p_tasks, p_queues, p_lanes, p_levels, p_max_attempts, p_unique, p_inputs, p_extras,
      p_schedules, p_occurs, p_asked, p_fair
    )
      WITH ORDINALITY g(
        id, task, queue, lane, level, max_attempts, unique_key, input, extra, schedule, occurs,
        asked, fair, n
      )
    ORDER BY g.n;
    RETURN ARRAY[v_now, v_wall];
  END IF;
  WITH made AS (
    INSERT INTO sluice.jobs (
      id, task, queue, state, lane, priority, max_attempts, created, since, due, expires, uses,
      weights, unique_key, input, extra, schedule, occurs, asked, fair, lease, timeout, dead_letter,
      bounded, flow, node, step, item, attempt
    )
    SELECT g.id, g.task, g.queue,
      CASE
        WHEN (g.terms ->> {{terms.pending}})::boolean THEN {{job.pending}}
        WHEN g.run_at > v_wall THEN {{job.scheduled}}
        ELSE {{job.available}}
      END,
      g.lane, g.level, g.max_attempts, v_now, v_now,
      CASE
        WHEN (g.terms ->> {{terms.pending}})::boolean THEN NULL
        WHEN g.run_at > v_wall THEN g.run_at
        WHEN (g.uses IS NULL OR NOT v_waits) AND g.expires IS NULL THEN NULL
        ELSE sluice.latest_start(g.uses, g.expires, v_now, v_wall)
      END,
      g.expires, g.uses, g.weights, g.unique_key, g.input, g.extra, g.schedule, g.occurs, g.asked,
      g.fair,
      (g.terms ->> {{terms.lease}})::bigint, (g.terms ->> {{terms.timeout}})::bigint,
      coalesce((g.terms ->> {{terms.dead_letter}})::boolean, false),
      CASE WHEN g.queue = ANY (v_bounded) THEN true END, g.flow, g.node, g.step, g.item,
      coalesce(g.attempt, 0)
    FROM unnest(
      p_ids, p_tasks, p_queues, p_lanes, p_levels, p_max_attempts, p_run_at, p_expires, p_uses,
      p_weights, p_unique, p_inputs, p_extras, p_schedules, p_occurs, p_asked, p_fair, p_terms,
      p_flows, p_nodes, p_steps, p_items, p_attempts
    )
      WITH ORDINALITY g(
        id, task, queue, lane, level, max_attempts, run_at, expires, uses, weights, unique_key,
        input, extra, schedule, occurs, asked, fair, terms, flow, node, step, item, attempt, n
      )
    ORDER BY g.n
    RETURNING seq, state, priority, queue, lane, uses, fair, due
  ), met AS (
  -- Combined with the shares and grouped, not joined: a plan for any number of lanes would compare
  -- each with each.
  SELECT min(m.queue) AS queue, m.lane, min(m.uses) AS uses, min(m.fair) AS fair,
    (array_agg(m.share ORDER BY m.n DESC NULLS LAST))[1] AS share,
    bool_or(m.due IS NOT NULL AND m.state = {{job.available}}) AS look,
    (array_agg(m.priority ORDER BY m.priority DESC NULLS LAST, m.seq))[1] AS level,
    (array_agg(m.seq ORDER BY m.priority DESC NULLS LAST, m.seq))[1] AS first
  FROM (
    SELECT queue, lane, uses, fair, due, state, priority, seq, NULL::bigint AS n, NULL::int AS share
    FROM made WHERE uses IS NOT NULL AND (state = {{job.available}} OR p_shares IS NOT NULL)
    UNION ALL
    SELECT NULL, u.lane, NULL, NULL, NULL, NULL, NULL, NULL, u.n, u.share
    FROM unnest(p_lanes, p_shares) WITH ORDINALITY u(lane, share, n)
  ) m
  GROUP BY m.lane HAVING min(m.uses) IS NOT NULL
  )
  -- Lanes that only a share or a stripe tells apart from others have rows of their own.
  INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look, level, first, lanes, firsts)
  SELECT p.queue, CASE count(*) WHEN 1 THEN min(p.lane) ELSE '' END,
    CASE count(*) WHEN 1 THEN min(p.uses) ELSE '[]' END, CASE count(*) WHEN 1 THEN min(p.fair) END,
    p.share, p.look, p.level, CASE count(*) WHEN 1 THEN min(p.first) END,
    CASE WHEN count(*) > 1 THEN array_agg(p.lane) END,
    CASE WHEN count(*) > 1 THEN array_agg(p.first) END
  FROM (
    SELECT n.*, CASE WHEN n.share <> 1 OR n.queue = ANY (v_striped) THEN -n.at ELSE n.at / 40 END
      AS part
    FROM (SELECT met.*, row_number() OVER () AS at FROM met) n
  ) p
  GROUP BY p.queue, p.share, p.look, p.level, p.part;
  RETURN ARRAY[v_now, v_wall];
END $f$;
