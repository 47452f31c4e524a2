-- Jobs under a limit of scope `worker` wait in one lane, which is spread. Each worker has a view of
-- it: a lane of a queue and of buckets of its own, without jobs of its own. A view waits in the
-- wait list of its worker's bucket while others stay open. All rules for lanes apply to views.

-- The queue that only holds one worker's views.
CREATE OR REPLACE FUNCTION sluice.own_queue(
  p_queue text, p_worker bigint
) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
  SELECT p_queue || E'\x01' || p_worker $f$;

-- Makes the next claim of their queue evaluate lanes, as after an arrival.
CREATE OR REPLACE FUNCTION sluice.announce_lanes(
  p_ids bigint[]
) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
  SELECT sluice.shared_queue(l.queue), l.key,
    (
      SELECT '[' || string_agg(
        '[' || to_json(b.limit_name)::text || ',' || to_json(b.key)::text || ']', ',' ORDER BY u.n
      ) || ']'
      FROM unnest(l.buckets) WITH ORDINALITY u(id, n)
      JOIN sluice.buckets b ON b.id = u.id
    ),
    l.fair, false
  FROM sluice.lanes l WHERE l.id = ANY (p_ids) AND cardinality(l.buckets) > 0;
END $f$;

-- Creates a new or returning worker's views of the lanes in which jobs already wait.
CREATE OR REPLACE FUNCTION sluice.adopt(p_queues text[]) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  -- A claim that spreads a lane meanwhile knows the worker, or has done so before this. Limits may
  -- get this scope until this transaction has the lock.
  PERFORM sluice.lock_queues(p_queues);
  IF NOT EXISTS (SELECT 1 FROM sluice.apart) THEN RETURN; END IF;
  PERFORM sluice.announce_lanes(
    ARRAY(
      SELECT id FROM sluice.lanes
      WHERE state = {{lane.spread}} AND queue = ANY (sluice.stripes(p_queues))
    )
  );
END $f$;

-- Under the lock of their queues: forgets views, and spread lanes without views and waiting jobs.
CREATE OR REPLACE FUNCTION sluice.drop_views(
  p_ids bigint[], p_now bigint
) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE v_stood bigint[]; v_buckets bigint[]; v_bases text[];
BEGIN
  WITH gone AS (
    DELETE FROM sluice.lanes WHERE id = ANY (p_ids) RETURNING bucket, deputy_of, buckets, base
  )
  SELECT (
    SELECT array_agg(DISTINCT b) FROM gone g, unnest(ARRAY[g.bucket, g.deputy_of]) b
    WHERE b IS NOT NULL
  ),
    (SELECT array_agg(b) FROM gone g, unnest(g.buckets) b),
    (SELECT array_agg(DISTINCT g.base) FROM gone g) INTO v_stood, v_buckets, v_bases;
  IF v_bases IS NULL THEN RETURN; END IF;
  v_buckets := v_buckets || sluice.forget_spread(v_bases);
  PERFORM sluice.lock_buckets(v_buckets || v_stood);
  UPDATE sluice.buckets
  SET wake_at = least(wake_at, p_now)
  WHERE id = ANY (v_stood) AND wake_at > p_now;
  UPDATE sluice.buckets b
  SET lanes = b.lanes - g.n
  FROM (SELECT id, count(*) AS n FROM unnest(v_buckets) id GROUP BY id) g
  WHERE b.id = ANY (v_buckets) AND b.id = g.id;
  -- No job waits there any more: a worker's own bucket has no other lanes.
  UPDATE sluice.buckets
  SET wake_at = NULL, deferred = 0, told = NULL
  WHERE id = ANY (v_buckets) AND worker <> 0 AND lanes = 0;
END $f$;

-- Forgets spread lanes without views, waiting jobs and a share to keep. Returns their buckets, each
-- of which loses a lane.
CREATE OR REPLACE FUNCTION sluice.forget_spread(
  p_keys text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $f$
DECLARE v_buckets bigint[]; v_kept bigint[];
BEGIN
  v_kept := sluice.kept_lanes(ARRAY(SELECT id FROM sluice.lanes WHERE key = ANY (p_keys)));
  WITH gone AS (
    DELETE FROM sluice.lanes l
    WHERE l.key = ANY (p_keys) AND l.state = {{lane.spread}} AND l.id <> ALL (v_kept)
      AND NOT EXISTS (SELECT 1 FROM sluice.lanes v WHERE v.base = l.key)
    AND NOT EXISTS (
      SELECT 1 FROM sluice.jobs j WHERE j.lane = l.key AND j.state = {{job.available}}
    )
    RETURNING l.buckets
  )
  SELECT coalesce(array_agg(b), '{}') INTO v_buckets FROM gone g, unnest(g.buckets) b;
  RETURN v_buckets;
END $f$;

-- Deletes the views of workers of these queues that are gone or silent.
CREATE OR REPLACE FUNCTION sluice.leave_views(
  p_workers bigint[], p_queues text[], p_now bigint
) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  -- A claim that has spread a lane for the worker is done; a later one knows that it is gone. Views
  -- may outlast the limits that they were created for.
  PERFORM sluice.lock_queues(p_queues);
  PERFORM sluice.drop_views(
    ARRAY(SELECT id FROM sluice.lanes WHERE worker = ANY (p_workers)), p_now
  );
END $f$;

-- Among lanes with arrivals, spreads only those with a limit of this scope; returns their keys, or
-- null. The limits may have changed since a lane was created. Each worker that serves the queue
-- then has its view.
CREATE OR REPLACE FUNCTION sluice.spread_lanes(
  p_keys text[], p_uses text[], p_now bigint
) RETURNS text[] LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_spread text[]; v_joined text[]; v_woken bigint[]; v_missing record;
BEGIN
  SELECT coalesce(array_agg(a.key), '{}') INTO v_spread FROM unnest(p_keys, p_uses) a(key, uses)
  WHERE EXISTS (
    SELECT 1 FROM json_array_elements(a.uses::json) u
    JOIN sluice.apart x ON x.limit_name = u ->> {{use.limit}} AND x.apart
  );
  v_joined := ARRAY(
    SELECT l.key FROM sluice.lanes l
    WHERE l.key = ANY (p_keys) AND l.state = {{lane.spread}} AND l.key <> ALL (v_spread)
  );
  IF cardinality(v_joined) > 0 THEN
    UPDATE sluice.lanes SET state = {{lane.empty}}, emptied = p_now WHERE key = ANY (v_joined);
    PERFORM sluice.drop_views(
      ARRAY(SELECT id FROM sluice.lanes WHERE base = ANY (v_joined)), p_now
    );
  END IF;
  IF cardinality(v_spread) = 0 THEN RETURN NULL; END IF;
  WITH turned AS (
    UPDATE sluice.lanes l
    SET state = {{lane.spread}}, bucket = NULL, over = '', deputy_of = NULL, sieve = NULL
    FROM (
      SELECT id, bucket, deputy_of FROM sluice.lanes
      WHERE key = ANY (v_spread) AND state <> {{lane.spread}}
    ) o
    WHERE l.id = o.id
    RETURNING o.bucket, o.deputy_of
  )
  SELECT array_agg(DISTINCT b) INTO v_woken FROM turned t, unnest(ARRAY[t.bucket, t.deputy_of]) b
  WHERE b IS NOT NULL;
  IF v_woken IS NOT NULL THEN PERFORM sluice.wake_lines(v_woken, p_now); END IF;
  SELECT array_agg(l.key || E'\x01' || w.id) AS keys,
    array_agg(sluice.own_queue(l.queue, w.id)) AS queues, array_agg(l.fair) AS fair,
    array_agg(l.share::int) AS shares,
    array_agg(l.key) AS bases, array_agg(w.id) AS workers, array_agg((
      SELECT json_agg(
        json_build_array(b.limit_name, b.key, CASE WHEN x.apart THEN w.id ELSE 0 END) ORDER BY u.n
      )::text
      FROM unnest(l.buckets) WITH ORDINALITY u(id, n)
      JOIN sluice.buckets b ON b.id = u.id
      LEFT JOIN sluice.apart x ON x.limit_name = b.limit_name)) AS uses
  INTO v_missing FROM sluice.lanes l, sluice.workers w
  WHERE l.key = ANY (v_spread) AND sluice.shared_queue(l.queue) = ANY (w.queues)
    AND w.alive_until > 0
    AND NOT EXISTS (SELECT 1 FROM sluice.lanes v WHERE v.key = l.key || E'\x01' || w.id);
  IF v_missing.keys IS NOT NULL THEN
    PERFORM sluice.create_lanes(
      v_missing.keys, v_missing.queues, v_missing.uses, v_missing.fair, v_missing.shares,
      v_missing.bases, v_missing.workers, p_now
    );
  END IF;
  UPDATE sluice.lanes v
  SET share = l.share
  FROM sluice.lanes l WHERE l.key = ANY (v_spread) AND v.base = l.key AND v.share <> l.share;
  RETURN v_spread;
END $f$;
