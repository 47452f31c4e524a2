-- Creates missing lanes, with their buckets. A bucket that was forgotten meanwhile is a new one.
-- Uses: [[limit, key, worker], …]; the worker, which owns the bucket, may be absent. The last
-- columns say how each lane begins; without them it is empty.
CREATE OR REPLACE FUNCTION sluice.create_lanes(
  p_keys text[], p_queues text[], p_uses text[], p_fair text[], p_shares int[], p_bases text[],
  p_workers bigint[], p_now bigint, p_states int[] DEFAULT NULL, p_priorities bigint[] DEFAULT NULL,
  p_heads bigint[] DEFAULT NULL, p_turns bigint[] DEFAULT NULL, p_passed text[] DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE
  v_limits text[]; v_keys text[]; v_owners bigint[]; v_made bigint[] := '{}'; wanted bigint[];
  needed int; more bigint[]; v_counted bigint[]; v_more int[];
BEGIN
  SELECT array_agg(s.l), array_agg(s.k), array_agg(s.w), count(*)
  INTO v_limits, v_keys, v_owners, needed
  FROM (
    SELECT DISTINCT (e ->> {{use.limit}}) COLLATE "C" AS l, (e ->> {{use.key}}) COLLATE "C" AS k,
      coalesce((e ->> {{use.worker}})::bigint, 0) AS w
    FROM unnest(p_uses) u, json_array_elements(u::json) e
  ) s;
  LOOP
    WITH made AS (
      INSERT INTO sluice.buckets (limit_name, key, worker, touched, lanes)
      -- Nearly all new buckets are those of one new lane each: its count is right from the start.
      SELECT u.l, u.k, u.w, p_now, 1 FROM unnest(v_limits, v_keys, v_owners) u(l, k, w)
      WHERE NOT EXISTS (
        SELECT 1 FROM sluice.buckets b
        WHERE b.limit_name = u.l AND b.key = u.k AND b.worker = u.w {{apart}}
      )
      ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING RETURNING id
    )
    SELECT array_agg(id) INTO more FROM made;
    v_made := v_made || more;
    SELECT coalesce(array_agg(b.id), '{}') INTO wanted
    FROM unnest(v_limits, v_keys, v_owners) u(l, k, w),
      LATERAL (
        SELECT id FROM sluice.buckets
        WHERE limit_name = u.l AND key = u.k AND worker = u.w {{apart}}
      ) b;
    EXIT WHEN cardinality(wanted) = needed AND (
      needed = cardinality(v_made) OR sluice.lock_buckets(wanted) = needed
    );
  END LOOP;
  WITH created AS (
    INSERT INTO sluice.lanes (
      key, queue, fair, share, base, worker, state, priority, head, turn, passed, emptied, buckets
    )
    SELECT g.key, g.queue, g.fair, coalesce(g.share, 1), g.base, g.worker,
      coalesce(g.state, {{lane.empty}}), coalesce(g.priority, 0), coalesce(g.head, 0),
      coalesce(g.turn, 0), g.passed, CASE WHEN g.state IS NULL THEN p_now END, ARRAY(
      SELECT b.id FROM json_array_elements(g.uses::json) WITH ORDINALITY e(use, n),
        LATERAL (
          SELECT id FROM sluice.buckets
          WHERE limit_name = e.use ->> {{use.limit}} AND key = e.use ->> {{use.key}}
            AND worker = coalesce((e.use ->> {{use.worker}})::bigint, 0) {{apart}}
        ) b
      ORDER BY e.n)
    FROM unnest(
      p_keys, p_queues, p_uses, p_fair, p_shares, p_bases, p_workers, p_states, p_priorities,
      p_heads, p_turns, p_passed
    )
      g(
        key, queue, uses, fair, share, base, worker, state, priority, head, turn, passed
      )
    ON CONFLICT DO NOTHING RETURNING buckets
  ), counted AS (
    SELECT s.id, sum(s.n) AS n
    FROM (
      SELECT b.id, 1 AS n FROM created, unnest(created.buckets) b(id)
      UNION ALL SELECT b.id, -1 FROM unnest(v_made) b(id)
    ) s
    GROUP BY s.id HAVING sum(s.n) <> 0
  )
  SELECT array_agg(c.id), array_agg(c.n) INTO v_counted, v_more FROM counted c;
  IF v_counted IS NOT NULL THEN PERFORM sluice.add_lanes(v_counted, v_more); END IF;
END $f$;

-- Adds to the numbers of the buckets' lanes.
CREATE OR REPLACE FUNCTION sluice.add_lanes(
  p_ids bigint[], p_more int[]
) RETURNS void LANGUAGE plpgsql {{by_list}} AS $f$
BEGIN
  UPDATE sluice.buckets b SET lanes = b.lanes + c.more FROM unnest(p_ids, p_more) c(id, more)
  WHERE b.id = ANY (p_ids) AND b.id = c.id;
END $f$;

-- The queue's own buckets, in the order of the request; missing ones are created.
CREATE OR REPLACE FUNCTION sluice.own_buckets(p_uses json) RETURNS bigint[] LANGUAGE plpgsql AS $f$
DECLARE found bigint[];
BEGIN
  LOOP
    found := ARRAY(
      SELECT b.id FROM json_array_elements(p_uses) WITH ORDINALITY u(use, n), sluice.buckets b
      WHERE b.limit_name = u.use ->> {{use.limit}} AND b.key = u.use ->> {{use.key}}
        AND b.worker = coalesce((u.use ->> {{use.worker}})::bigint, 0)
      ORDER BY u.n
    );
    IF cardinality(found) = json_array_length(p_uses) THEN RETURN found; END IF;
    INSERT INTO sluice.buckets (limit_name, key, worker, touched)
    SELECT DISTINCT (u ->> {{use.limit}}) COLLATE "C", (u ->> {{use.key}}) COLLATE "C",
      coalesce((u ->> {{use.worker}})::bigint, 0), sluice.now_us()
    FROM json_array_elements(p_uses) u ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING;
  END LOOP;
END $f$;
