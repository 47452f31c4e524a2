-- Under the lock of their queues: those of these empty lanes that keep a share for a job which may
-- come back, at its time, for another attempt, after others of its flow, or by a manual retry. A
-- lane with a share of one has nothing to keep. A view is kept for the jobs of its lane.
CREATE OR REPLACE FUNCTION sluice.kept_lanes(
  p_ids bigint[]
) RETURNS bigint[] LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_keys text[]; v_kept text[];
BEGIN
  v_keys := ARRAY(
    SELECT DISTINCT coalesce(l.base, l.key) FROM sluice.lanes l
    WHERE l.id = ANY (p_ids) AND l.share <> 1
  );
  IF v_keys = '{}' THEN RETURN '{}'; END IF;
  v_kept := ARRAY(
    SELECT k FROM unnest(v_keys) k
    -- A limit, since an EXISTS may be planned as a hash of all such jobs.
    WHERE coalesce(
      (
        SELECT j.seq FROM sluice.jobs j
        WHERE hashtext(j.lane) = hashtext(k) AND j.lane = k AND j.uses IS NOT NULL AND j.state IN (
          {{job.scheduled}}, {{job.retryable}}, {{job.pending}}, {{job.discarded}}
        )
        LIMIT 1
      ),
      -- No claim has taken in its arrival.
      (SELECT j.seq FROM sluice.jobs j WHERE j.lane = k AND j.state = {{job.available}} LIMIT 1)
    ) IS NOT NULL
    UNION ALL
    SELECT j.lane FROM sluice.jobs j WHERE j.state = {{job.active}} AND j.lane = ANY (v_keys)
  );
  RETURN ARRAY(
    SELECT l.id FROM sluice.lanes l
    WHERE l.id = ANY (p_ids) AND l.share <> 1 AND coalesce(l.base, l.key) = ANY (v_kept)
  );
END $f$;
