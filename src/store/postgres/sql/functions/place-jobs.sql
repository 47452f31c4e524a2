-- The places of jobs of workflow flows.

-- Moves jobs to new places, and counts the moves. A job that does not start yet waits until p_due,
-- for p_delays from now on, or until something wakes it. p_fresh: it goes behind all other jobs.
CREATE OR REPLACE FUNCTION sluice.place_jobs(
  p_seqs bigint[], p_fresh boolean[], p_states int[], p_queues text[], p_lanes text[],
  p_levels bigint[], p_asked int[], p_max_attempts int[], p_attempts int[], p_due bigint[],
  p_uses text[], p_weights text[], p_fair text[], p_shares int[], p_steps text[], p_awaits text[],
  p_inputs text[], p_kept int[], p_bytes bigint[], p_delays bigint[]
) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  PERFORM sluice.move_jobs(
    p_seqs, p_fresh, p_states, p_queues, p_lanes, p_levels, p_asked, p_max_attempts, p_attempts,
    p_due, p_uses, p_weights, p_fair, p_shares, p_steps, p_awaits, p_inputs, p_kept, p_bytes,
    p_delays, NULL, NULL, NULL, NULL
  );
END $f$;

-- The same. With p_workers, p_runs, p_started and p_moves each row is a run that its worker ends by
-- going on: p_kept and p_bytes are added, and the row counts only while the worker holds the lease
-- of that run, nothing asks it to end, and its flow may remember as much. Returns the rows that
-- counted: the old seq, the state, the flow, its generation and the permits of the run.
CREATE OR REPLACE FUNCTION sluice.move_jobs(
  p_seqs bigint[], p_fresh boolean[], p_states int[], p_queues text[], p_lanes text[],
  p_levels bigint[], p_asked int[], p_max_attempts int[], p_attempts int[], p_due bigint[],
  p_uses text[], p_weights text[], p_fair text[], p_shares int[], p_steps text[], p_awaits text[],
  p_inputs text[], p_kept int[], p_bytes bigint[], p_delays bigint[], p_workers bigint[],
  p_runs int[], p_started bigint[], p_moves int[]
) RETURNS TABLE (
  r_seq bigint, r_state int, r_flow bigint, r_generation int, r_permits bigint[]
) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE
  v_now bigint := sluice.now_us(); v_wall bigint := sluice.wall_us();
  v_guarded boolean := p_workers IS NOT NULL;
  -- A call of latest_start for each job would cost more than its row.
  v_waits boolean := EXISTS (SELECT 1 FROM sluice.max_waits);
  v_bounded text[] := ARRAY(
    SELECT name FROM sluice.queues WHERE bounds IS NOT NULL AND name = ANY (p_queues)
  );
BEGIN
  RETURN QUERY
  WITH moved AS (
    UPDATE sluice.jobs j SET
      seq = CASE WHEN g.fresh THEN nextval('sluice.jobs_seq_seq') ELSE j.seq END,
      state = CASE
        WHEN g.state = {{job.scheduled}} AND g.due <= v_wall THEN {{job.available}}
        ELSE g.state
      END,
      queue = g.queue, lane = g.lane, priority = g.level, asked = g.asked,
      max_attempts = g.max_attempts, attempt = g.attempt,
      due = CASE
        WHEN g.state = {{job.scheduled}} AND g.due > v_wall THEN g.due
        WHEN g.state IN ({{job.retryable}}, {{job.pending}}) THEN coalesce(v_now + g.delay, g.due)
        WHEN v_waits AND g.uses IS NOT NULL THEN sluice.latest_start(g.uses, NULL, v_now, v_wall)
      END,
      uses = g.uses, weights = g.weights, fair = g.fair, step = g.step, awaits = g.awaits,
      input = coalesce(g.input, j.input),
      kept = CASE WHEN v_guarded THEN j.kept ELSE 0 END + g.kept,
      bytes = CASE WHEN v_guarded THEN j.bytes ELSE 0 END + g.bytes, moves = j.moves + 1,
      pushed_back = 0, since = v_now, worker = NULL, expires = NULL, booked = NULL,
      finished = NULL, bounded = CASE WHEN g.queue = ANY (v_bounded) THEN true END
    FROM unnest(
      p_seqs, p_fresh, p_states, p_queues, p_lanes, p_levels, p_asked, p_max_attempts, p_attempts,
      p_due, p_uses, p_weights, p_fair, p_shares, p_steps, p_awaits, p_inputs, p_kept, p_bytes,
      p_delays, p_workers, p_runs, p_started, p_moves
    ) g(
      seq, fresh, state, queue, lane, level, asked, max_attempts, attempt, due, uses, weights, fair,
      share, step, awaits, input, kept, bytes, delay, worker, run, started, moves
    )
    WHERE j.seq = g.seq AND (
      NOT v_guarded OR (
        j.state + 0 = {{job.active}} AND j.worker = g.worker AND j.attempt = g.run
          AND j.moves = g.moves AND j.started = coalesce(g.started, j.started)
          AND NOT j.cancelling
          -- A look for one row: a join could be planned from all flows, while those are few.
          AND (
            SELECT f.kind = 'machine' OR j.node > 0 OR (
              j.kept + f.kept + g.kept <= {{max_flow_steps}}
                AND j.bytes + f.bytes + g.bytes <= {{max_flow_bytes}}
            )
            FROM sluice.flows f WHERE f.seq = j.flow
          )
      )
    )
    RETURNING g.seq AS old, j.seq, j.state, j.queue, j.lane, j.uses, j.fair, j.due, j.priority,
      g.share, j.flow, j.permits
  ), announced AS (
    INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look, level, first)
    SELECT m.queue, m.lane, min(m.uses), min(m.fair), (max(ARRAY[m.seq, m.share]))[2],
      bool_or(m.due IS NOT NULL AND m.state = {{job.available}}),
      (max(ARRAY[m.priority, -m.seq]))[1], -(max(ARRAY[m.priority, -m.seq]))[2]
    FROM moved m WHERE m.uses IS NOT NULL
    GROUP BY m.queue, m.lane
  )
  SELECT m.old, m.state::int, m.flow,
    CASE WHEN v_guarded THEN (
      SELECT f.generation FROM sluice.flows f WHERE f.seq = m.flow
    ) END,
    m.permits
  FROM moved m;
END $f$;

-- Ends runs that only go on: moves their jobs, writes their steps, returns their permits. One
-- statement for a whole batch, sorted by seq. Returns the seq and the state of the runs that
-- counted; of the others nothing is written. p_of: the run of each step.
CREATE OR REPLACE FUNCTION sluice.go_on(
  p_ageing text, p_seqs bigint[], p_fresh boolean[], p_states int[], p_queues text[],
  p_lanes text[], p_levels bigint[], p_asked int[], p_max_attempts int[], p_attempts int[],
  p_due bigint[], p_uses text[], p_weights text[], p_fair text[], p_shares int[], p_steps text[],
  p_awaits text[], p_inputs text[], p_kept int[], p_bytes bigint[], p_delays bigint[],
  p_workers bigint[], p_runs int[], p_started bigint[], p_moves int[],
  p_of bigint[], p_names text[], p_ends text[], p_results text[], p_errors text[], p_tries int[],
  p_begun bigint[], p_finished bigint[], p_waited bigint[], p_waited_for text[], p_until bigint[],
  p_states_before text[]
) RETURNS TABLE (r_seq bigint, r_state int, r_now bigint) LANGUAGE plpgsql AS $f$
DECLARE
  v_now bigint; v_seqs bigint[]; v_states int[]; v_flows bigint[]; v_generations int[];
  v_permits bigint[];
BEGIN
  PERFORM sluice.check_ageing(p_ageing);
  v_now := sluice.now_us();
  WITH moved AS MATERIALIZED (
    SELECT m.r_seq AS seq, m.r_state AS state, m.r_flow AS flow, m.r_generation AS generation,
      m.r_permits AS permits
    FROM sluice.move_jobs(
      p_seqs, p_fresh, p_states, p_queues, p_lanes, p_levels, p_asked, p_max_attempts, p_attempts,
      p_due, p_uses, p_weights, p_fair, p_shares, p_steps, p_awaits, p_inputs, p_kept, p_bytes,
      p_delays, p_workers, p_runs, p_started, p_moves
    ) m
  )
  SELECT array_agg(m.seq), array_agg(m.state), array_agg(m.flow), array_agg(m.generation),
    (SELECT array_agg(p) FROM moved, unnest(moved.permits) p)
  INTO v_seqs, v_states, v_flows, v_generations, v_permits FROM moved m;
  PERFORM sluice.write_flow_steps(
    v_seqs, v_flows, v_generations, p_of, p_names, p_ends, p_results, p_errors, p_tries, p_begun,
    p_finished, p_waited, p_waited_for, p_until, p_states_before
  );
  IF v_permits IS NOT NULL THEN PERFORM sluice.return_permits(v_permits, v_now); END IF;
  RETURN QUERY SELECT m.seq, m.state, v_now FROM unnest(v_seqs, v_states) m(seq, state);
END $f$;

-- Makes jobs available in their lanes, at their old places.
CREATE OR REPLACE FUNCTION sluice.wake_jobs(
  p_seqs bigint[]
) RETURNS void LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_now bigint; v_wall bigint;
BEGIN
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  WITH woken AS (
    UPDATE sluice.jobs j
    SET state = {{job.available}}, since = v_now, booked = NULL,
      due = sluice.latest_start(j.uses, j.expires, v_now, v_wall)
    WHERE j.seq = ANY (p_seqs)
    RETURNING j.queue, j.lane, j.uses, j.fair, j.due
  )
  INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
  SELECT w.queue, w.lane, min(w.uses), min(w.fair), bool_or(w.due IS NOT NULL) FROM woken w
  WHERE w.uses IS NOT NULL
  GROUP BY w.queue, w.lane;
END $f$;
