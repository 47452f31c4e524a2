-- Jobs that came without their limits wait in a lane that no claim reads, one for each queue and
-- task. Claims report these lanes to engines. No queue's name has a space, and no other lane's name
-- begins with a question mark.

CREATE OR REPLACE FUNCTION sluice.unresolved_lane(
  p_queue text, p_task text
) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
  SELECT '?' || p_queue || ' ' || p_task $f$;

-- The lanes of unresolved jobs, by one index probe each and one more for each queue. Null: there
-- are none.
CREATE OR REPLACE FUNCTION sluice.claim_unresolved(
  p_queues text[]
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
DECLARE v_queue text; v_lane text; v_found text[];
BEGIN
  FOREACH v_queue IN ARRAY p_queues LOOP
    v_lane := sluice.unresolved_lane(v_queue, '');
    LOOP
      SELECT j.lane INTO v_lane FROM sluice.jobs j
      WHERE j.state = {{job.available}} AND j.lane > v_lane AND j.lane < '?' || v_queue || '!'
      ORDER BY j.lane LIMIT 1;
      EXIT WHEN NOT FOUND;
      v_found := v_found || v_lane;
    END LOOP;
  END LOOP;
  RETURN to_json(v_found);
END $f$;

-- Moves jobs to the lanes of their resolved limits, as of their arrival, or ends them with an
-- error. It skips jobs that another caller has resolved, ended or locked meanwhile.
CREATE OR REPLACE FUNCTION sluice.resolve(
  p_seqs bigint[], p_lanes text[], p_levels bigint[], p_uses text[], p_weights text[],
  p_asked int[], p_fair text[], p_shares int[], p_errors text[], p_discarded_us bigint
) RETURNS bigint[] LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_now bigint; v_wall bigint; v_had bigint[]; v_done bigint[];
BEGIN
  v_had := ARRAY(
    SELECT seq FROM sluice.jobs
    WHERE seq = ANY (p_seqs) AND state + 0 = {{job.available}} AND left(lane, 1) = '?' ORDER BY seq
    FOR UPDATE SKIP LOCKED
  );
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  WITH done AS (
    UPDATE sluice.jobs j
    SET state = CASE WHEN g.error IS NULL THEN {{job.available}} ELSE {{job.discarded}} END,
      error = coalesce(g.error, j.error), finished = CASE WHEN g.error IS NOT NULL THEN v_now END,
      lane = coalesce(g.lane, j.lane), priority = coalesce(g.level, j.priority), uses = g.uses,
      weights = g.weights, asked = g.asked, fair = g.fair,
      due = CASE
        WHEN g.error IS NULL
          THEN sluice.latest_start(g.uses, j.expires, j.since, v_wall - (v_now - j.since))
        ELSE v_now + p_discarded_us
      END
    FROM unnest(
      p_seqs, p_lanes, p_levels, p_uses, p_weights, p_asked, p_fair, p_shares, p_errors
    ) g(seq, lane, level, uses, weights, asked, fair, share, error)
    WHERE j.seq = g.seq AND j.seq = ANY (v_had)
    RETURNING j.seq, j.state, j.priority, j.queue, j.lane, j.uses, j.fair, j.due, g.share
  ), announced AS (
    INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look, level, first)
    SELECT d.queue, d.lane, min(d.uses), min(d.fair), (array_agg(d.share ORDER BY d.seq DESC))[1],
      bool_or(d.due IS NOT NULL),
      (array_agg(d.priority ORDER BY d.priority DESC, d.seq))[1],
      (array_agg(d.seq ORDER BY d.priority DESC, d.seq))[1]
    FROM done d WHERE d.uses IS NOT NULL AND d.state = {{job.available}} GROUP BY d.queue, d.lane
  )
  SELECT coalesce(array_agg(d.seq), '{}') INTO v_done FROM done d;
  RETURN v_done;
END $f$;
