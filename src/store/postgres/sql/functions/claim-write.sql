-- The second round trip of a claim: it writes what the decision came to, set by set. What does not
-- fit the rows that the decision was made on ends the whole.

-- SL001: decided too long ago. SL002: jobs that were granted cannot be had; the message names them.
CREATE OR REPLACE FUNCTION sluice.claim_write(
  p_now bigint, p_late_us bigint, p_worker bigint, p_lease_us bigint, p_grants json, p_lanes json,
  p_buckets json, p_rejected json, p_booked json, p_outside boolean DEFAULT false,
  p_claim uuid DEFAULT NULL
) RETURNS TABLE (r_seq bigint, r_id uuid, r_task text, r_queue text, r_priority int, r_input text,
r_attempt int, r_max_attempts int, r_pushed_back int, r_created bigint,
  r_extra text, r_schedule text, r_occurs bigint, r_state int, r_since bigint,
  r_flow bigint) LANGUAGE plpgsql
{{by_index}} AS $f$
DECLARE v_seqs bigint[]; v_permits text[]; v_had bigint[]; v_rejected bigint[]; v_count int;
BEGIN
  IF sluice.now_us() - p_now > p_late_us THEN
    RAISE EXCEPTION 'decided % us ago', sluice.now_us() - p_now USING ERRCODE = 'SL001';
  END IF;
  SELECT coalesce(array_agg((g ->> 0)::bigint), '{}'), coalesce(array_agg(g ->> 1), '{}')
  INTO v_seqs, v_permits
  FROM json_array_elements(p_grants) g;
  v_rejected := ARRAY(SELECT (r ->> 0)::bigint FROM json_array_elements(p_rejected) r);
  -- The state is written so that no partial index seems to fit: only the jobs named are to be read.
  v_had := ARRAY(
    SELECT seq FROM sluice.jobs
    WHERE seq = ANY (v_seqs || v_rejected) AND state + 0 = {{job.available}} ORDER BY seq
    FOR UPDATE SKIP LOCKED
  );
  IF cardinality(v_had) <> cardinality(v_seqs) + cardinality(v_rejected) THEN
    RAISE EXCEPTION '%',
    (SELECT json_agg(s) FROM unnest(v_seqs || v_rejected) s WHERE s <> ALL (v_had))
    USING ERRCODE = 'SL002';
  END IF;
  IF json_array_length(p_lanes) > 0 THEN
    UPDATE sluice.lanes l
    SET state = (g ->> 1)::int, bucket = (g ->> 2)::bigint, over = g ->> 3,
      deputy_of = (g ->> 4)::bigint, priority = (g ->> 5)::bigint,
      head = (g ->> 6)::bigint, turn = (g ->> 7)::bigint, taken = (g ->> 8)::int, sieve = g ->> 9,
      passed = g ->> 10, emptied = CASE WHEN (g ->> 1)::int = 0 THEN p_now ELSE l.emptied END
    FROM json_array_elements(p_lanes) g WHERE l.id = (g ->> 0)::bigint;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> json_array_length(p_lanes) THEN
      RAISE EXCEPTION '[]' USING ERRCODE = 'SL002';
    END IF;
    -- Those that need a bucket that drops: which of them wait elsewhere, and what they ask of it.
    IF EXISTS (SELECT 1 FROM json_array_elements(p_lanes) g WHERE g ->> 11 IS NOT NULL) THEN
      DELETE FROM sluice.drop_watch w USING json_array_elements(p_lanes) g
      WHERE w.lane = (g ->> 0)::bigint AND g ->> 11 IS NOT NULL;
      INSERT INTO sluice.drop_watch (lane, bucket, need)
      SELECT (g ->> 0)::bigint, (d ->> 0)::bigint, (d ->> 1)::bigint
      FROM json_array_elements(p_lanes) g,
        json_array_elements(CASE WHEN json_typeof(g -> 11) = 'array' THEN g -> 11 ELSE '[]' END) d;
    END IF;
  END IF;
  IF json_array_length(p_buckets) > 0 THEN
    UPDATE sluice.buckets b
    SET wake_at = (g ->> 1)::bigint,
      state = CASE WHEN g ->> 2 IS NULL THEN b.state ELSE g ->> 2 END,
      revision = CASE WHEN g ->> 2 IS NULL THEN b.revision ELSE (g ->> 3)::int END,
      active = (g ->> 4)::int, deferred = (g ->> 5)::int, told = (g ->> 6)::bigint
    FROM json_array_elements(p_buckets) g WHERE b.id = (g ->> 0)::bigint;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> json_array_length(p_buckets) THEN
      RAISE EXCEPTION '[]' USING ERRCODE = 'SL002';
    END IF;
  END IF;
  IF cardinality(v_rejected) > 0 THEN
    RETURN QUERY UPDATE sluice.jobs j SET
      state = CASE
        WHEN (g ->> 1)::int = 7 AND j.schedule IS NOT NULL AND j.attempt = 0 THEN 6
        ELSE (g ->> 1)::int
      END,
      due = CASE
        WHEN (g ->> 1)::int = 7 AND j.schedule IS NOT NULL AND j.attempt = 0 THEN (g ->> 4)::bigint
        ELSE (g ->> 2)::bigint
      END,
      finished = p_now, error = g ->> 3
    FROM json_array_elements(p_rejected) g WHERE j.seq = (g ->> 0)::bigint
    RETURNING j.seq, j.id, j.task, j.queue, coalesce(j.asked, j.priority)::int, j.input, j.attempt,
      j.max_attempts, j.pushed_back, j.created, j.extra, j.schedule, j.occurs, j.state::int,
      j.since, j.flow;
  END IF;
  -- What somebody else holds he is about to change, and then it is put off anew.
  IF json_array_length(p_booked) > 0 THEN
    UPDATE sluice.jobs j
    SET booked = (g ->> 1)::bigint
    FROM json_array_elements(p_booked) g
    WHERE j.seq = (g ->> 0)::bigint AND j.state + 0 = {{job.available}}
      AND j.seq = ANY (
        ARRAY(
          SELECT seq FROM sluice.jobs
          WHERE seq = ANY (ARRAY(SELECT (b ->> 0)::bigint FROM json_array_elements(p_booked) b))
          ORDER BY seq FOR UPDATE SKIP LOCKED
        )
      );
  END IF;
  RETURN QUERY
  SELECT *
  FROM sluice.start_jobs(v_seqs, v_permits, p_worker, p_lease_us, p_now, p_outside, p_claim);
END $f$;
