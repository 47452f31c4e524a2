-- Stripes: the lanes of a queue are spread over `queues.stripes` parts by their keys, and each part
-- is claimed under a lock of its own. The lanes of a stripe stand under a queue name of their own:
-- the queue's name, E'\x02' and the stripe. Where a queue has one stripe its name stands alone.

-- As stripeOf in jobs/lane.ts.
CREATE OR REPLACE FUNCTION sluice.stripe_of(
  p_key text, p_stripes int
) RETURNS int LANGUAGE sql IMMUTABLE AS $f$
  SELECT ('x0' || substr(md5(p_key), 1, 7))::bit(32)::int % p_stripes $f$;

CREATE OR REPLACE FUNCTION sluice.stripe_name(
  p_queue text, p_stripe int, p_stripes int
) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE p_stripes WHEN 1 THEN p_queue ELSE p_queue || E'\x02' || p_stripe END $f$;

-- The queue behind a stripe or a worker's own queue.
CREATE OR REPLACE FUNCTION sluice.shared_queue(
  p_queue text
) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
  SELECT split_part(split_part(p_queue, E'\x01', 1), E'\x02', 1) $f$;

CREATE OR REPLACE FUNCTION sluice.shared_queues(
  p_queues text[]
) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $f$
BEGIN
  IF strpos(array_to_string(p_queues, ''), E'\x02') = 0 THEN RETURN p_queues; END IF;
  RETURN ARRAY(SELECT DISTINCT sluice.shared_queue(q) FROM unnest(p_queues) q);
END $f$;

-- The names under which the lanes of these queues stand. A stripe's name stays as it is.
CREATE OR REPLACE FUNCTION sluice.stripes(
  p_queues text[]
) RETURNS text[] LANGUAGE plpgsql STABLE AS $f$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM sluice.queues WHERE name = ANY (p_queues) AND stripes > 1) THEN
    RETURN p_queues;
  END IF;
  RETURN ARRAY(
    SELECT sluice.stripe_name(q.name, s, coalesce(r.stripes, 1))
    FROM unnest(p_queues) WITH ORDINALITY q(name, n) LEFT JOIN sluice.queues r ON r.name = q.name,
      generate_series(0, coalesce(r.stripes, 1) - 1) s
    ORDER BY q.n, s
  );
END $f$;

-- The name under which a lane of a queue stands.
CREATE OR REPLACE FUNCTION sluice.lane_queue(
  p_queue text, p_key text
) RETURNS text LANGUAGE plpgsql STABLE AS $f$
DECLARE v_stripes int;
BEGIN
  SELECT stripes INTO v_stripes FROM sluice.queues WHERE name = p_queue AND stripes > 1;
  IF NOT FOUND THEN RETURN p_queue; END IF;
  RETURN sluice.stripe_name(p_queue, sluice.stripe_of(p_key, v_stripes), v_stripes);
END $f$;

-- The queues in which lanes wait for a bucket, are open or are parked, and those on record: a queue
-- is recorded after its first job is stored, and not at all where SQL alone has named it. It probes
-- an index once for each queue; behind a queue's name stand those of its stripes and workers.
CREATE OR REPLACE FUNCTION sluice.queues_of(
  p_bucket bigint
) RETURNS text[] LANGUAGE plpgsql STABLE {{by_order}} AS $f$
DECLARE v_queue text := ''; v_found text[] := '{}';
BEGIN
  LOOP
    SELECT min(f.queue) INTO v_queue
    FROM (
      (
        SELECT l.queue FROM sluice.lanes l
        WHERE l.state = {{lane.waiting}} AND l.bucket = p_bucket AND l.queue > v_queue
        ORDER BY l.queue LIMIT 1
      )
      UNION ALL (
        SELECT l.queue FROM sluice.lanes l
        WHERE l.state = {{lane.open}} AND l.queue > v_queue ORDER BY l.queue LIMIT 1
      )
      UNION ALL (
        SELECT l.queue FROM sluice.lanes l
        WHERE l.state = {{lane.parked}} AND l.queue > v_queue ORDER BY l.queue LIMIT 1
      )
    ) f;
    EXIT WHEN v_queue IS NULL;
    v_queue := sluice.shared_queue(v_queue);
    v_found := v_found || v_queue;
    v_queue := v_queue || E'\x03';
  END LOOP;
  RETURN ARRAY(SELECT q FROM unnest(v_found) q UNION SELECT q.name FROM sluice.queues q);
END $f$;

-- The queues with lanes in a bucket's wait list. One index probe finds each.
CREATE OR REPLACE FUNCTION sluice.queues_in_line(
  p_bucket bigint
) RETURNS SETOF text LANGUAGE plpgsql STABLE AS $f$
DECLARE v_queue text := '';
BEGIN
  LOOP
    SELECT l.queue INTO v_queue FROM sluice.lanes l
    WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}} AND l.queue > v_queue
    ORDER BY l.queue LIMIT 1;
    EXIT WHEN NOT FOUND;
    RETURN NEXT v_queue;
  END LOOP;
END $f$;

-- Spreads the lanes of a queue over so many stripes. Running claims of the queue end first. A claim
-- that waits for a lock of a former stripe finds that out, and starts again.
CREATE OR REPLACE FUNCTION sluice.set_stripes(
  p_queue text, p_stripes int
) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE v_before int;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('sluice.stripes'), hashtext(p_queue));
  SELECT stripes INTO v_before FROM sluice.queues WHERE name = p_queue;
  IF v_before = p_stripes THEN RETURN; END IF;
  PERFORM sluice.lock_queues(
    ARRAY(
      SELECT sluice.stripe_name(p_queue, s, n)
      FROM unnest(ARRAY[coalesce(v_before, 1), p_stripes]) n, generate_series(0, n - 1) s
    )
  );
  INSERT INTO sluice.queues AS q (name, stripes, created)
  VALUES (p_queue, p_stripes, sluice.now_us())
  ON CONFLICT (name) DO UPDATE SET stripes = excluded.stripes;
  UPDATE sluice.lanes l
  SET queue = sluice.stripe_name(
      p_queue, sluice.stripe_of(coalesce(l.base, l.key), p_stripes), p_stripes
    ) || CASE WHEN l.worker IS NULL THEN '' ELSE E'\x01' || l.worker END
  WHERE sluice.shared_queue(l.queue) = p_queue;
END $f$;

-- Whether a stripe may have something to decide: open lanes or parked ones for the claimer,
-- arrivals, lanes that wait for a due bucket, or jobs in the unlimited lane. p_due: the queues of
-- such lanes; p_unlimited: the key of the unlimited lane.
CREATE OR REPLACE FUNCTION sluice.has_work(
  p_stripe text, p_unlimited text, p_worker bigint, p_known text, p_due text[]
) RETURNS boolean LANGUAGE plpgsql STABLE {{by_order}} AS $f$
DECLARE v_names text[] := ARRAY[p_stripe, sluice.own_queue(p_stripe, p_worker)];
BEGIN
  RETURN v_names && p_due
    OR EXISTS (SELECT 1 FROM sluice.lanes WHERE queue = ANY (v_names) AND state = {{lane.open}})
    OR cardinality(sluice.parked_lanes(v_names, p_known, 1)) > 0
    OR sluice.has_arrived(ARRAY[p_stripe])
    OR (
      sluice.lane_queue(sluice.shared_queue(p_stripe), p_unlimited) = p_stripe
        -- In the order of the index that begins with the lane: others would fit as well.
        AND (
          SELECT seq FROM sluice.jobs WHERE lane = p_unlimited AND state = {{job.available}}
          ORDER BY priority DESC, seq LIMIT 1
        ) IS NOT NULL
    );
END $f$;

-- Chooses and locks one stripe of each queue: the first from p.stripe on, around, that has work and
-- that no other claim holds. If others hold all that have work, the claim waits for one of them,
-- unless it holds a stripe of another queue: no two claims wait for each other's stripes. Queues of
-- one stripe are locked before any stripe, or by the caller, if there are only such and p_takes. p:
-- the plan of a claim; its `tried` stripes are left out. r_more: there is work in a stripe that was
-- not chosen. r_striped: some queue has several stripes.
CREATE OR REPLACE FUNCTION sluice.choose_stripes(
  p json, p_takes boolean, OUT r_names text[], OUT r_more boolean, OUT r_striped boolean
) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE
  v_queues text[] := ARRAY(SELECT json_array_elements_text(p -> 'queues')); v_queue record;
  v_tried text[]; v_worker bigint; v_name text; v_held text[] := '{}'; v_taken text[] := '{}';
  v_due text[]; v_found boolean; v_due_at bigint; v_names text[];
BEGIN
  r_more := false;
  r_striped := EXISTS (SELECT 1 FROM sluice.queues WHERE name = ANY (v_queues) AND stripes > 1);
  IF NOT r_striped THEN
    r_names := v_queues;
    IF NOT p_takes THEN PERFORM sluice.lock_queues(r_names); END IF;
    RETURN;
  END IF;
  r_names := ARRAY(
    SELECT q FROM unnest(v_queues) q
    WHERE NOT EXISTS (SELECT 1 FROM sluice.queues r WHERE r.name = q AND r.stripes > 1)
  );
  PERFORM sluice.lock_queues(r_names);
  v_tried := ARRAY(SELECT json_array_elements_text(p -> 'tried'));
  v_worker := (p ->> 'worker')::bigint;
  v_due_at := sluice.now_us() + coalesce((p ->> 'aheadUs')::bigint, 0);
  v_names := sluice.stripes(sluice.queues_with_room(p));
  v_names := v_names || ARRAY(SELECT sluice.own_queue(q, v_worker) FROM unnest(v_names) q);
  v_due := ARRAY(
    SELECT DISTINCT f.queue
    FROM unnest(ARRAY[0, v_worker]) o(worker),
      unnest(
        sluice.due_lists(
          o.worker, v_due_at, v_names, greatest(64, (p ->> 'due')::int),
          ARRAY(SELECT json_array_elements_text(p -> 'unserved'))
        )
      ) b,
      sluice.queues_in_line(b) f(queue)
  );
  FOR v_queue IN
    SELECT r.name, r.stripes, u.value ->> {{unlimited.lane}} AS lane,
      (f.value #>> '{}')::int AS first
    FROM json_array_elements(p -> 'line_of') WITH ORDINALITY u(value, n)
    JOIN json_array_elements(p -> 'stripe') WITH ORDINALITY f(value, n) USING (n)
    JOIN sluice.queues r ON r.name = u.value ->> {{unlimited.queue}}
    WHERE r.stripes > 1 AND NOT r.paused ORDER BY r.name
  LOOP
    v_found := false;
    FOR n IN 0 .. v_queue.stripes - 1 LOOP
      v_name := sluice.stripe_name(
        v_queue.name, (v_queue.first + n) % v_queue.stripes, v_queue.stripes
      );
      CONTINUE WHEN v_name = ANY (v_tried)
        OR NOT sluice.has_work(v_name, v_queue.lane, v_worker, p ->> 'known', v_due);
      IF v_found THEN
        r_more := true;
        EXIT;
      END IF;
      v_found := pg_try_advisory_xact_lock(hashtext('sluice.'), hashtext('sluice.queue' || v_name));
      IF v_found THEN
        v_taken := v_taken || v_name;
      ELSE
        v_held := v_held || v_name;
      END IF;
    END LOOP;
  END LOOP;
  IF cardinality(v_taken) = 0 AND cardinality(v_held) > 0 THEN
    v_taken := v_held[1:1];
    PERFORM sluice.lock_queues(v_taken);
  END IF;
  r_more := r_more OR EXISTS (SELECT 1 FROM unnest(v_held) h WHERE h <> ALL (v_taken));
  -- Read after the locks: the number of stripes stays while any of them is locked.
  IF NOT v_taken <@ sluice.stripes(v_queues) THEN
    RAISE EXCEPTION 'the stripes of a queue have changed' USING ERRCODE = 'SL001';
  END IF;
  r_names := r_names || v_taken;
END $f$;
