-- Stores jobs that start at once at p_worker. Returns their numbers in the order of p_ids.
CREATE OR REPLACE FUNCTION sluice.insert_started(
  p_ids uuid[], p_tasks text[], p_queues text[], p_lanes text[], p_levels bigint[],
  p_max_attempts int[], p_inputs text[], p_extras text[], p_asked int[], p_flows bigint[],
  p_nodes int[], p_steps text[], p_bounded text[], p_worker bigint, p_lease_us bigint,
  p_claim uuid, p_now bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $f$
DECLARE v_seqs bigint[];
BEGIN
  WITH made AS (
    INSERT INTO sluice.jobs (
      id, task, queue, state, lane, priority, max_attempts, created, since, input, extra, asked,
      bounded, flow, node, step, attempt, started, worker, claim, due
    )
    SELECT g.id, g.task, g.queue, {{job.active}}, g.lane, g.level, g.max_attempts, p_now, p_now,
      g.input, g.extra, g.asked, CASE WHEN g.queue = ANY (p_bounded) THEN true END, g.flow, g.node,
      g.step, 1, p_now, p_worker, p_claim, p_now + p_lease_us
    FROM unnest(
      p_ids, p_tasks, p_queues, p_lanes, p_levels, p_max_attempts, p_inputs, p_extras, p_asked,
      p_flows, p_nodes, p_steps
    )
      WITH ORDINALITY g(
        id, task, queue, lane, level, max_attempts, input, extra, asked, flow, node, step, n
      )
    ORDER BY g.n
    RETURNING seq
  )
  -- Numbers are given in the order of the rows.
  SELECT array_agg(seq ORDER BY seq) INTO v_seqs FROM made;
  RETURN v_seqs;
END $f$;
