-- Pushes of remote jobs: one statement checks and stores them.

-- Jobs of a bounded queue that have not started.
CREATE OR REPLACE FUNCTION sluice.depth_of(
  p_queue text
) RETURNS bigint LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (
    SELECT count(*) FROM sluice.jobs
    WHERE queue = p_queue AND bounded
      AND state IN ({{job.scheduled}}, {{job.available}}, {{job.retryable}})
  );
END $f$;

-- The first job that cannot be stored, and the reason; otherwise the new fill levels of its queues.
-- p_given: ids that the caller chose, null for others. SL003: limits have changed since the caller
-- read them.
CREATE OR REPLACE FUNCTION sluice.check_offer(
  p_given uuid[], p_queues text[], p_keys text[], p_generation bigint
) RETURNS TABLE (refused json, depths json) LANGUAGE plpgsql
{{by_index}} AS $f$
DECLARE
  v_kept uuid[]; v_taken int; v_full record; v_names text[]; v_depths bigint[]; v_bounds json[];
BEGIN
  IF coalesce((SELECT value::bigint FROM sluice.store WHERE name = 'limits'), 0) <> p_generation
  THEN
    RAISE EXCEPTION 'limits have changed' USING ERRCODE = 'SL003';
  END IF;
  PERFORM sluice.lock_unique(p_keys);
  v_kept := ARRAY(SELECT id FROM sluice.jobs WHERE id = ANY (p_given));
  v_taken := (
    SELECT min(g.n) FROM unnest(p_given) WITH ORDINALITY g(id, n)
    WHERE g.id = ANY (v_kept) OR g.id = ANY (p_given[:g.n - 1])
  );
  IF sluice.lock_bounds(p_queues) THEN
    SELECT array_agg(q.name), array_agg(sluice.depth_of(q.name)), array_agg(q.bounds::json)
    INTO v_names, v_depths, v_bounds
    FROM sluice.queues q WHERE q.bounds IS NOT NULL AND q.name = ANY (p_queues);
    SELECT g.n, b.name, (b.bounds ->> 'maxDepth')::bigint AS bound, b.depth + g.before AS depth
    INTO v_full
    FROM (
      SELECT u.queue, u.n, row_number() OVER (PARTITION BY u.queue ORDER BY u.n) - 1 AS before
      FROM unnest(p_queues) WITH ORDINALITY u(queue, n)
    ) g,
      unnest(v_names, v_depths, v_bounds) b(name, depth, bounds)
    WHERE b.name = g.queue AND b.depth + g.before >= (b.bounds ->> 'maxDepth')::bigint ORDER BY g.n
    LIMIT 1;
    IF FOUND AND v_full.n < coalesce(v_taken, v_full.n + 1) THEN
      refused := json_build_object(
        'at', v_full.n - 1, 'why',
        json_build_object(
          'kind', 'full', 'queue', v_full.name, 'depth', v_full.depth, 'bound', v_full.bound
        )
      );
    END IF;
    depths := (
      SELECT json_agg(
        json_build_object(
          'queue', b.name, 'depth',
          b.depth + (SELECT count(*) FROM unnest(p_queues) q WHERE q = b.name), 'bounds', b.bounds
        )
      )
      FROM unnest(v_names, v_depths, v_bounds) b(name, depth, bounds)
    );
  END IF;
  IF v_taken IS NOT NULL AND refused IS NULL THEN
    refused := json_build_object(
      'at', v_taken - 1, 'why', json_build_object('kind', 'taken', 'id', p_given[v_taken])
    );
  END IF;
  RETURN NEXT;
END $f$;
