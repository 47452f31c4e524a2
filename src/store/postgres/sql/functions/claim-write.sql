-- The second round trip of a claim: it writes the decision, set by set. A row that differs from the
-- one decided on rolls everything back.

-- SL001: the decision is too old. SL002: started jobs are no longer available; the message names
-- them.
CREATE OR REPLACE FUNCTION sluice.claim_write(
  p_now bigint, p_late_us bigint, p_worker bigint, p_lease_us bigint, p_grants json, p_lanes json,
  p_buckets json, p_rejected json, p_booked json, p_outside boolean DEFAULT false,
  p_claim uuid DEFAULT NULL, p_workers bigint[] DEFAULT NULL, p_claims uuid[] DEFAULT NULL
) RETURNS TABLE (r_seq bigint, r_id uuid, r_task text, r_queue text, r_priority int, r_input text,
r_attempt int, r_max_attempts int, r_pushed_back int, r_created bigint,
  r_extra text, r_schedule text, r_occurs bigint, r_state int, r_since bigint,
  r_flow bigint, r_run text) LANGUAGE plpgsql
{{by_index}} AS $f$
DECLARE
  v_seqs bigint[]; v_permits text[]; v_starts bigint[]; v_had bigint[]; v_rejected bigint[];
  v_count int;
BEGIN
  IF sluice.now_us() - p_now > p_late_us THEN
    RAISE EXCEPTION 'decided % us ago', sluice.now_us() - p_now USING ERRCODE = 'SL001';
  END IF;
  SELECT coalesce(array_agg((g ->> {{grant.seq}})::bigint), '{}'),
    coalesce(array_agg(g ->> {{grant.permits}}), '{}'),
    array_agg((g ->> {{grant.start}})::bigint)
  INTO v_seqs, v_permits, v_starts
  FROM json_array_elements(p_grants) g;
  v_rejected := ARRAY(
    SELECT (r ->> {{rejection.seq}})::bigint FROM json_array_elements(p_rejected) r
  );
  -- The state is written so that no partial index seems to fit: the update must only read the named
  -- jobs.
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
    SET state = g.state, bucket = g.bucket, over = g.over, deputy_of = g.deputy_of,
      priority = g.priority, head = g.head, turn = g.turn, taken = g.taken, sieve = g.sieve,
      passed = g.passed,
      emptied = CASE WHEN g.state = {{lane.empty}} THEN p_now ELSE l.emptied END
    FROM (
      SELECT (r ->> {{lane_row.id}})::bigint AS id, (r ->> {{lane_row.state}})::int AS state,
        (r ->> {{lane_row.bucket}})::bigint AS bucket, r ->> {{lane_row.over}} AS over,
        (r ->> {{lane_row.deputy_of}})::bigint AS deputy_of,
        (r ->> {{lane_row.priority}})::bigint AS priority,
        (r ->> {{lane_row.head}})::bigint AS head, (r ->> {{lane_row.turn}})::bigint AS turn,
        (r ->> {{lane_row.taken}})::int AS taken, r ->> {{lane_row.sieve}} AS sieve,
        r ->> {{lane_row.passed}} AS passed
      FROM json_array_elements(p_lanes) r
    ) g
    WHERE l.id = g.id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> json_array_length(p_lanes) THEN
      RAISE EXCEPTION '[]' USING ERRCODE = 'SL002';
    END IF;
    -- Lanes that need a bucket that drops: which of them wait for another bucket, and their need.
    IF EXISTS (
      SELECT 1 FROM json_array_elements(p_lanes) g WHERE g ->> {{lane_row.watches}} IS NOT NULL
    ) THEN
      DELETE FROM sluice.drop_watch w USING json_array_elements(p_lanes) g
      WHERE w.lane = (g ->> {{lane_row.id}})::bigint AND g ->> {{lane_row.watches}} IS NOT NULL;
      INSERT INTO sluice.drop_watch (lane, bucket, need)
      SELECT (g ->> {{lane_row.id}})::bigint, (d ->> {{watch.bucket}})::bigint,
        (d ->> {{watch.need}})::bigint
      FROM json_array_elements(p_lanes) g,
        json_array_elements(
          CASE
            WHEN json_typeof(g -> {{lane_row.watches}}) = 'array' THEN g -> {{lane_row.watches}}
            ELSE '[]'
          END
        ) d;
    END IF;
  END IF;
  IF json_array_length(p_buckets) > 0 THEN
    UPDATE sluice.buckets b
    SET wake_at = g.wake_at, state = coalesce(g.state, b.state),
      revision = CASE WHEN g.state IS NULL THEN b.revision ELSE g.revision END,
      active = g.active, deferred = g.deferred, told = g.told
    FROM (
      SELECT (r ->> {{bucket_row.id}})::bigint AS id,
        (r ->> {{bucket_row.wake_at}})::bigint AS wake_at, r ->> {{bucket_row.state}} AS state,
        (r ->> {{bucket_row.revision}})::int AS revision,
        (r ->> {{bucket_row.active}})::int AS active,
        (r ->> {{bucket_row.deferred}})::int AS deferred,
        (r ->> {{bucket_row.told}})::bigint AS told
      FROM json_array_elements(p_buckets) r
    ) g
    WHERE b.id = g.id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> json_array_length(p_buckets) THEN
      RAISE EXCEPTION '[]' USING ERRCODE = 'SL002';
    END IF;
  END IF;
  IF cardinality(v_rejected) > 0 THEN
    -- An occurrence of a schedule that has never started is skipped, and kept as cancelled.
    RETURN QUERY UPDATE sluice.jobs j
    SET state = CASE
        WHEN g.state = {{job.discarded}} AND j.schedule IS NOT NULL AND j.attempt = 0
          THEN {{job.cancelled}}
        ELSE g.state
      END,
      due = CASE
        WHEN g.state = {{job.discarded}} AND j.schedule IS NOT NULL AND j.attempt = 0
          THEN g.skipped_due
        ELSE g.due
      END,
      finished = p_now, error = g.error
    FROM (
      SELECT (r ->> {{rejection.seq}})::bigint AS seq, (r ->> {{rejection.state}})::int AS state,
        (r ->> {{rejection.due}})::bigint AS due, r ->> {{rejection.error}} AS error,
        (r ->> {{rejection.skipped_due}})::bigint AS skipped_due
      FROM json_array_elements(p_rejected) r
    ) g
    WHERE j.seq = g.seq
    RETURNING j.seq, j.id, j.task, j.queue, coalesce(j.asked, j.priority)::int, j.input, j.attempt,
      j.max_attempts, j.pushed_back, j.created, j.extra, j.schedule, j.occurs, j.state::int,
      j.since, j.flow, NULL::text;
  END IF;
  -- A job that another process has locked is about to change; a later claim then reschedules it.
  IF json_array_length(p_booked) > 0 THEN
    UPDATE sluice.jobs j
    SET booked = (g ->> {{reservation.start}})::bigint
    FROM json_array_elements(p_booked) g
    WHERE j.seq = (g ->> {{reservation.seq}})::bigint AND j.state + 0 = {{job.available}}
      AND j.seq = ANY (
        ARRAY(
          SELECT seq FROM sluice.jobs
          WHERE seq = ANY (
            ARRAY(SELECT (b ->> {{reservation.seq}})::bigint FROM json_array_elements(p_booked) b)
          )
          ORDER BY seq FOR UPDATE SKIP LOCKED
        )
      );
  END IF;
  RETURN QUERY
  SELECT *
  FROM sluice.start_jobs(
    v_seqs, v_permits, p_worker, p_lease_us, p_now, p_outside, p_claim, p_workers, p_claims,
    v_starts
  );
END $f$;
