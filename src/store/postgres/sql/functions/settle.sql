-- Writes the outcomes of runs: one statement for a whole batch. It writes jobs, buckets and flows,
-- never lanes. p_retention holds that of completed, cancelled and discarded jobs, in this order.

-- r_work: some job may start, of these or of others. r_flows, in the first row: the answer of
-- sluice.advance. r_ends: the caller has to apply ends to workflow flows. Sorted by seq, since
-- every writer of several jobs locks them in this order. A row counts only while the caller holds
-- the lease for the run that started then: a later run may have the same attempt.
CREATE OR REPLACE FUNCTION sluice.settle(
  p_seqs bigint[], p_attempts int[], p_workers bigint[], p_states int[], p_after bigint[],
  p_results text[], p_errors text[], p_back int[], p_retention bigint[],
  p_started bigint[] DEFAULT NULL, p_moves int[] DEFAULT NULL
) RETURNS TABLE (
  r_seq bigint, r_attempt int, r_state int, r_now bigint, r_work boolean, r_flows text,
  r_ends boolean
) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE
  v_now bigint; v_wall bigint; v_permits bigint[]; v_seqs bigint[]; v_attempts int[];
  v_states int[]; v_work boolean; v_ended bigint[]; v_flows text; v_ends boolean := false;
  v_moves boolean;
BEGIN
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  SELECT w.r_seqs, w.r_attempts, w.r_states, w.r_permits, w.r_ended, w.r_moves
  INTO v_seqs, v_attempts, v_states, v_permits, v_ended, v_moves
  FROM sluice.write_settled(
    p_seqs, p_attempts, p_workers, p_states, p_after, p_results, p_errors, p_back, p_retention,
    p_started, p_moves, v_now, v_wall
  ) w;
  v_work := v_states && ARRAY[{{job.scheduled}}, {{job.available}}, {{job.retryable}}];
  IF v_permits IS NOT NULL THEN v_work := sluice.return_permits(v_permits, v_now) OR v_work; END IF;
  IF v_ended IS NOT NULL THEN
    SELECT e.r_flows, e.r_ends, e.r_work OR v_work INTO v_flows, v_ends, v_work
    FROM sluice.end_in_flows(v_ended, v_moves, p_retention, v_now) e;
  END IF;
  RETURN QUERY
  SELECT s, a, t, v_now, v_work, CASE n WHEN 1 THEN v_flows END, v_ends
  FROM unnest(v_seqs, v_attempts, v_states) WITH ORDINALITY x(s, a, t, n);
END $f$;

-- The jobs of `settle`, and their arrivals. r_permits: what they held; r_ended: the jobs of flows
-- that have ended; r_moves: one of them moved a workflow.
CREATE OR REPLACE FUNCTION sluice.write_settled(
  p_seqs bigint[], p_attempts int[], p_workers bigint[], p_states int[], p_after bigint[],
  p_results text[], p_errors text[], p_back int[], p_retention bigint[], p_started bigint[],
  p_moves int[], p_now bigint, p_wall bigint, OUT r_seqs bigint[], OUT r_attempts int[],
  OUT r_states int[], OUT r_permits bigint[], OUT r_ended bigint[], OUT r_moves boolean
) LANGUAGE plpgsql {{by_list}} AS $f$
BEGIN
  WITH done AS (
    UPDATE sluice.jobs j SET
      state = CASE
        WHEN j.cancelling AND (
          g.state IN ({{job.scheduled}}, {{job.retryable}}, {{job.available}})
            -- A workflow flow that a timeout or a caller has ended keeps that end.
            OR (
              g.moves IS NOT NULL
                AND (
                  SELECT f.state <> {{flow.running}} FROM sluice.flows f WHERE f.seq = j.flow
                )
            )
        ) THEN {{job.cancelled}}
        ELSE g.state
      END,
      due = CASE
        WHEN j.cancelling
          AND g.state IN ({{job.scheduled}}, {{job.retryable}}, {{job.available}})
          THEN p_now + p_retention[{{retention.cancelled}}]
        WHEN g.state = {{job.scheduled}} THEN p_wall + g.after
        WHEN g.state = {{job.available}} THEN sluice.latest_start(j.uses, j.expires, p_now, p_wall)
        WHEN j.flow IS NULL OR g.state = {{job.retryable}} THEN p_now + g.after
      END,
      result = g.result, error = coalesce(g.error, j.error), attempt = j.attempt - g.back,
      errors = CASE
        WHEN g.error IS NULL OR g.back > 0 THEN j.errors
        ELSE sluice.with_failure(j.errors, g.error, j.attempt, p_now)
      END,
      -- A snooze ends a row of push-backs, and its next start is not the first one.
      pushed_back = CASE
        WHEN g.back = 0 THEN 0
        WHEN g.state = {{job.scheduled}} THEN 1
        ELSE j.pushed_back + 1
      END,
      finished = CASE
        WHEN g.state IN ({{job.scheduled}}, {{job.retryable}}, {{job.available}})
          AND NOT j.cancelling THEN NULL
        ELSE p_now
      END,
      since = p_now, worker = NULL
    FROM unnest(
      p_seqs, p_attempts, p_workers, p_states, p_after, p_results, p_errors, p_back, p_started,
      p_moves
    ) g(seq, attempt, worker, state, after, result, error, back, started, moves)
    WHERE j.seq = ANY (p_seqs) AND j.seq = g.seq AND j.attempt = g.attempt
      AND j.worker = g.worker AND j.state + 0 = {{job.active}}
      AND (g.started IS NULL OR j.started = g.started)
      AND (g.moves IS NULL OR j.moves = g.moves)
    RETURNING j.seq, j.attempt, j.state, j.permits, j.queue, j.lane, j.uses, j.fair, j.due, j.flow,
      g.moves
  ), announced AS (
    INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
    SELECT d.queue, d.lane, min(d.uses), min(d.fair), bool_or(d.due IS NOT NULL) FROM done d
    WHERE d.state = {{job.available}} AND d.uses IS NOT NULL
    GROUP BY d.queue, d.lane
  )
  SELECT array_agg(d.seq), array_agg(d.attempt), array_agg(d.state::int),
    (SELECT array_agg(p) FROM done, unnest(done.permits) p),
    array_agg(d.seq) FILTER (
      WHERE d.flow IS NOT NULL
        AND d.state IN ({{job.completed}}, {{job.cancelled}}, {{job.discarded}})
    ),
    bool_or(d.moves IS NOT NULL)
  INTO r_seqs, r_attempts, r_states, r_permits, r_ended, r_moves FROM done d;
END $f$;
