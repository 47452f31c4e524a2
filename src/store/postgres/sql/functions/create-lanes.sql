-- Creates missing lanes, with their buckets. A bucket that was forgotten meanwhile is a new one.
-- Uses: [[limit, key, worker], …]; the worker, which owns the bucket, may be absent.
CREATE OR REPLACE FUNCTION sluice.create_lanes(
  p_keys text[], p_queues text[], p_uses text[], p_fair text[], p_shares int[], p_bases text[],
  p_workers bigint[], p_now bigint
) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE wanted bigint[]; needed int;
BEGIN
  SELECT count(*) INTO needed
  FROM (
    SELECT DISTINCT e ->> {{use.limit}}, e ->> {{use.key}}, coalesce(e ->> {{use.worker}}, '0')
    FROM unnest(p_uses) u, json_array_elements(u::json) e
  ) s;
  LOOP
    INSERT INTO sluice.buckets (limit_name, key, worker, touched)
    SELECT DISTINCT (e ->> {{use.limit}}) COLLATE "C" AS l, (e ->> {{use.key}}) COLLATE "C" AS k,
      coalesce((e ->> {{use.worker}})::bigint, 0) AS w, p_now
    FROM unnest(p_uses) u, json_array_elements(u::json) e
    WHERE NOT EXISTS (
      SELECT 1 FROM sluice.buckets b
      WHERE b.limit_name = e ->> {{use.limit}} AND b.key = e ->> {{use.key}}
        AND b.worker = coalesce((e ->> {{use.worker}})::bigint, 0)
    )
    ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING;
    SELECT coalesce(array_agg(DISTINCT b.id), '{}') INTO wanted
    FROM unnest(p_uses) u, json_array_elements(u::json) e, sluice.buckets b
    WHERE b.limit_name = e ->> {{use.limit}} AND b.key = e ->> {{use.key}}
      AND b.worker = coalesce((e ->> {{use.worker}})::bigint, 0);
    EXIT WHEN cardinality(wanted) = needed AND sluice.lock_buckets(wanted) = needed;
  END LOOP;
  WITH created AS (
    INSERT INTO sluice.lanes (key, queue, fair, share, base, worker, emptied, buckets)
    SELECT g.key, g.queue, g.fair, coalesce(g.share, 1), g.base, g.worker, p_now, ARRAY(
      SELECT b.id FROM json_array_elements(g.uses::json) WITH ORDINALITY e(use, n), sluice.buckets b
      WHERE b.limit_name = e.use ->> {{use.limit}} AND b.key = e.use ->> {{use.key}}
        AND b.worker = coalesce((e.use ->> {{use.worker}})::bigint, 0)
      ORDER BY e.n)
    FROM unnest(
      p_keys, p_queues, p_uses, p_fair, p_shares, p_bases, p_workers
    ) g(key, queue, uses, fair, share, base, worker)
    ON CONFLICT DO NOTHING RETURNING buckets
  ), counted AS (
  SELECT b.id, count(*) AS n FROM created, unnest(created.buckets) b(id)
  GROUP BY b.id)
  UPDATE sluice.buckets b SET lanes = b.lanes + c.n FROM counted c WHERE b.id = c.id;
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
