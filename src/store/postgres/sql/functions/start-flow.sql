-- Storing flows, and starting their pending jobs.

-- Announces jobs of flows to their lanes, as an enqueue does.
CREATE OR REPLACE FUNCTION sluice.announce_jobs(
  p_seqs bigint[], p_shares int[]
) RETURNS void LANGUAGE plpgsql {{by_index}} AS $f$
BEGIN
  INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look, level, first)
  SELECT j.queue, j.lane, min(j.uses), min(j.fair), (array_agg(g.share ORDER BY j.seq DESC))[1],
    bool_or(j.due IS NOT NULL AND j.state = {{job.available}}),
    (array_agg(j.priority ORDER BY j.priority DESC, j.seq))[1],
    (array_agg(j.seq ORDER BY j.priority DESC, j.seq))[1]
  FROM unnest(p_seqs, p_shares) g(seq, share)
  CROSS JOIN LATERAL (SELECT * FROM sluice.jobs WHERE seq = g.seq {{apart}}) j
  WHERE j.uses IS NOT NULL
  GROUP BY j.queue, j.lane;
END $f$;

-- Stores a flow with all its jobs, in the order of their nodes; those that wait for no other join
-- their lanes.
CREATE OR REPLACE FUNCTION sluice.start_flow(
  p_id uuid, p_kind text, p_name text, p_total int, p_extra text, p_before int[], p_behind int[],
  p_ids uuid[], p_tasks text[], p_queues text[], p_lanes text[], p_priorities int[],
  p_max_attempts int[], p_run_at bigint[], p_delays bigint[], p_expires bigint[], p_uses text[],
  p_weights text[], p_inputs text[], p_extras text[], p_fair text[], p_shares int[],
  p_reached int[], p_nodes int[], p_waits int[], p_terms json[]
) RETURNS void LANGUAGE plpgsql SET jit = off AS $f$
DECLARE
  v_now bigint; v_wall bigint; v_flow bigint; v_ageing json; v_seqs bigint[]; v_shares int[];
  v_nodes bigint[]; v_bounded text[];
BEGIN
  v_bounded := ARRAY(
    SELECT name FROM sluice.queues WHERE bounds IS NOT NULL AND name = ANY (p_queues)
  );
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  v_ageing := (SELECT value::json FROM sluice.store WHERE name = 'ageing');
  INSERT INTO sluice.flows (id, kind, name, total, edges, created, extra)
  VALUES (p_id, p_kind, p_name, p_total, cardinality(p_behind), v_now, p_extra)
  RETURNING seq INTO v_flow;
  WITH given AS (
    SELECT g.*, greatest(g.start_at, CASE WHEN g.delay > 0 THEN v_wall + g.delay END) AS run_at
    FROM unnest(
      p_ids, p_tasks, p_queues, p_lanes, p_priorities, p_max_attempts, p_run_at, p_delays,
      p_expires, p_uses, p_weights, p_inputs, p_extras, p_fair, p_shares, p_reached, p_nodes,
      p_waits, p_terms
    )
      g(
        id, task, queue, lane, priority, max_attempts, start_at, delay, expires, uses, weights,
        input, extra, fair, share, reached, node, waits, terms
      )
  ), placed AS (
    SELECT g.*,
      CASE
        WHEN g.waits > 0 THEN g.priority
        ELSE sluice.level_at(
          v_ageing, g.priority, g.reached, v_now + greatest(0, g.run_at - v_wall)
        )
      END AS level
    FROM given g
  ), made AS (
    INSERT INTO sluice.jobs (
      id, task, queue, state, lane, priority, asked, fair, max_attempts, created, since, due,
      expires, uses, weights, input, extra, flow, node, waits, plan, lease, timeout, dead_letter,
      bounded
    )
    SELECT g.id, g.task, g.queue,
      CASE
        WHEN g.waits > 0 THEN {{job.pending}}
        WHEN g.run_at > v_wall THEN {{job.scheduled}}
        ELSE {{job.available}}
      END,
      g.lane, g.level, nullif(g.priority, g.level), g.fair, g.max_attempts, v_now, v_now,
      CASE
        WHEN g.waits > 0 THEN NULL
        WHEN g.run_at > v_wall THEN g.run_at
        WHEN g.uses IS NULL AND g.expires IS NULL THEN NULL
        ELSE sluice.latest_start(g.uses, g.expires, v_now, v_wall)
      END,
      g.expires, g.uses, g.weights, g.input, g.extra, v_flow, g.node, g.waits,
      CASE
        WHEN g.waits > 0 THEN json_build_array(g.reached, g.start_at, g.delay, g.share)::text
      END,
      (g.terms ->> {{terms.lease}})::bigint, (g.terms ->> {{terms.timeout}})::bigint,
      coalesce((g.terms ->> {{terms.dead_letter}})::boolean, false),
      CASE WHEN g.queue = ANY (v_bounded) THEN true END
    FROM placed g ORDER BY g.node
    RETURNING seq, node, state, uses
  )
  SELECT array_agg(m.seq ORDER BY m.node),
    array_agg(m.seq) FILTER (WHERE m.state <> {{job.pending}} AND m.uses IS NOT NULL),
    array_agg(p_shares[m.node + 1]) FILTER (WHERE m.state <> {{job.pending}} AND m.uses IS NOT NULL)
  INTO v_nodes, v_seqs, v_shares FROM made m;
  INSERT INTO sluice.flow_edges (before, behind)
  SELECT v_nodes[e.before + 1], v_nodes[e.behind + 1]
  FROM unnest(p_before, p_behind) e(before, behind);
  IF v_seqs IS NOT NULL THEN PERFORM sluice.announce_jobs(v_seqs, v_shares); END IF;
END $f$;

-- Starts pending jobs: they join their lanes, at their old places, or are scheduled.
CREATE OR REPLACE FUNCTION sluice.begin_jobs(
  p_seqs bigint[], p_now bigint, p_wall bigint
) RETURNS void LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_ageing json; v_seqs bigint[]; v_shares int[];
BEGIN
  v_ageing := (SELECT value::json FROM sluice.store WHERE name = 'ageing');
  WITH given AS (
    SELECT j.seq, (j.plan::json ->> {{plan.reached}})::int AS reached,
      (j.plan::json ->> {{plan.share}})::int AS share,
      greatest(
        (j.plan::json ->> {{plan.start_at}})::bigint,
        CASE
          WHEN (j.plan::json ->> {{plan.delay}})::bigint > 0
            THEN p_wall + (j.plan::json ->> {{plan.delay}})::bigint
        END
      ) AS run_at
    FROM sluice.jobs j WHERE j.seq = ANY (p_seqs)
  ), moved AS (
    UPDATE sluice.jobs j
    SET state = CASE WHEN g.run_at > p_wall THEN {{job.scheduled}} ELSE {{job.available}} END,
      waits = 0, plan = NULL, since = p_now,
      priority = sluice.level_at(
        v_ageing, j.priority, g.reached, p_now + greatest(0, g.run_at - p_wall)
      ),
      asked = nullif(
        j.priority,
        sluice.level_at(v_ageing, j.priority, g.reached, p_now + greatest(0, g.run_at - p_wall))
      ),
      due = CASE
        WHEN g.run_at > p_wall THEN g.run_at
        ELSE sluice.latest_start(j.uses, j.expires, p_now, p_wall)
      END
    FROM given g WHERE j.seq = g.seq AND j.state + 0 = {{job.pending}}
    RETURNING j.seq, j.uses, g.share
  )
  SELECT array_agg(m.seq), array_agg(m.share) INTO v_seqs, v_shares FROM moved m
  WHERE m.uses IS NOT NULL;
  IF v_seqs IS NOT NULL THEN PERFORM sluice.announce_jobs(v_seqs, v_shares); END IF;
END $f$;
