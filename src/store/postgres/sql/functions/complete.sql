-- Writes the results of runs that completed, if their end changes nothing but their own jobs and
-- the permits that these hold. sluice.settle does the same at a higher cost.

-- r_done: the runs that it settled. It leaves out the jobs of flows, and a run that does not hold
-- its lease any more. p_after: how long each job is kept.
CREATE OR REPLACE FUNCTION sluice.complete(
  p_seqs bigint[], p_attempts int[], p_workers bigint[], p_started bigint[], p_results text[],
  p_after bigint[]
) RETURNS TABLE (r_now bigint, r_work boolean, r_done bigint[]) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_permits bigint[];
BEGIN
  r_now := sluice.now_us();
  SELECT c.r_done, c.r_permits INTO r_done, v_permits
  FROM sluice.write_completed(
    p_seqs, p_attempts, p_workers, p_started, p_results, p_after, r_now
  ) c;
  r_work := v_permits IS NOT NULL AND sluice.return_permits(v_permits, r_now);
  RETURN NEXT;
END $f$;

-- The jobs of `complete`, and the permits that they held.
CREATE OR REPLACE FUNCTION sluice.write_completed(
  p_seqs bigint[], p_attempts int[], p_workers bigint[], p_started bigint[], p_results text[],
  p_after bigint[], p_now bigint, OUT r_done bigint[], OUT r_permits bigint[]
) LANGUAGE plpgsql {{by_list}} AS $f$
BEGIN
  WITH done AS (
    UPDATE sluice.jobs j
    SET state = {{job.completed}}, due = p_now + g.after, result = g.result, pushed_back = 0,
      finished = p_now, since = p_now, worker = NULL
    FROM unnest(p_seqs, p_attempts, p_workers, p_started, p_results, p_after)
      g(seq, attempt, worker, started, result, after)
    WHERE j.seq = ANY (p_seqs) AND j.seq = g.seq AND j.attempt = g.attempt
      AND j.worker = g.worker AND j.state + 0 = {{job.active}}
      AND (g.started IS NULL OR j.started = g.started) AND j.flow IS NULL
    RETURNING j.seq, j.permits
  )
  SELECT array_agg(d.seq),
    (SELECT array_agg(p) FROM done h, unnest(h.permits) p WHERE h.permits IS NOT NULL)
  INTO r_done, r_permits
  FROM done d;
END $f$;

-- Deletes the jobs of runs that completed and whose jobs are kept for no time, with the answer of
-- `complete`. Apart from that, so that jobs that are kept pay nothing for it.
CREATE OR REPLACE FUNCTION sluice.complete_and_delete(
  p_seqs bigint[], p_attempts int[], p_workers bigint[], p_started bigint[]
) RETURNS TABLE (r_now bigint, r_work boolean, r_done bigint[]) LANGUAGE plpgsql {{by_list}} AS $f$
DECLARE v_permits bigint[];
BEGIN
  r_now := sluice.now_us();
  WITH done AS (
    DELETE FROM sluice.jobs j
    USING unnest(p_seqs, p_attempts, p_workers, p_started) g(seq, attempt, worker, started)
    WHERE j.seq = ANY (p_seqs) AND j.seq = g.seq AND j.attempt = g.attempt
      AND j.worker = g.worker AND j.state + 0 = {{job.active}}
      AND (g.started IS NULL OR j.started = g.started) AND j.flow IS NULL
    RETURNING j.seq, j.permits
  )
  SELECT array_agg(d.seq),
    (SELECT array_agg(p) FROM done h, unnest(h.permits) p WHERE h.permits IS NOT NULL)
  INTO r_done, v_permits
  FROM done d;
  r_work := v_permits IS NOT NULL AND sluice.return_permits(v_permits, r_now);
  RETURN NEXT;
END $f$;
