-- The places of jobs of workflow flows.

-- Moves jobs to new places, and counts the moves. A job that does not start yet waits until p_due,
-- for p_delays from now on, or until something wakes it. p_fresh: it goes behind all other jobs.
CREATE OR REPLACE FUNCTION sluice.place_jobs(
  p_seqs bigint[], p_fresh boolean[], p_states int[], p_queues text[], p_lanes text[],
  p_levels bigint[], p_asked int[], p_max_attempts int[], p_attempts int[], p_due bigint[],
  p_uses text[], p_weights text[], p_fair text[], p_shares int[], p_steps text[], p_awaits text[],
  p_inputs text[], p_kept int[], p_bytes bigint[], p_delays bigint[]
) RETURNS void LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_now bigint; v_wall bigint; v_bounded text[];
BEGIN
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  v_bounded := ARRAY(
    SELECT name FROM sluice.queues WHERE bounds IS NOT NULL AND name = ANY (p_queues)
  );
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
        WHEN g.uses IS NOT NULL THEN sluice.latest_start(g.uses, NULL, v_now, v_wall)
      END,
      uses = g.uses, weights = g.weights, fair = g.fair, step = g.step, awaits = g.awaits,
      input = coalesce(g.input, j.input), kept = g.kept, bytes = g.bytes, moves = j.moves + 1,
      pushed_back = 0, since = v_now, worker = NULL, expires = NULL, booked = NULL,
      finished = NULL, bounded = CASE WHEN g.queue = ANY (v_bounded) THEN true END
    FROM unnest(
      p_seqs, p_fresh, p_states, p_queues, p_lanes, p_levels, p_asked, p_max_attempts, p_attempts,
      p_due, p_uses, p_weights, p_fair, p_shares, p_steps, p_awaits, p_inputs, p_kept, p_bytes,
      p_delays
    ) g(
      seq, fresh, state, queue, lane, level, asked, max_attempts, attempt, due, uses, weights, fair,
      share, step, awaits, input, kept, bytes, delay
    )
    WHERE j.seq = g.seq
    RETURNING j.seq, j.state, j.queue, j.lane, j.uses, j.fair, j.due, j.priority, g.share
  )
  INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look, level, first)
  SELECT m.queue, m.lane, min(m.uses), min(m.fair), (max(ARRAY[m.seq, m.share]))[2],
    bool_or(m.due IS NOT NULL), (max(ARRAY[m.priority, -m.seq]))[1],
    -(max(ARRAY[m.priority, -m.seq]))[2]
  FROM moved m WHERE m.uses IS NOT NULL AND m.state = {{job.available}}
  GROUP BY m.queue, m.lane;
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
