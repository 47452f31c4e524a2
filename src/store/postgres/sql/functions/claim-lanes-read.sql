-- The lanes that a decision may need, and their first jobs.

-- How many waiting jobs of each lane a decision may need. Of an open lane these are the jobs of the
-- turns that it can have in this claim, and one more, which is then first. The lanes before it
-- usually have as many jobs as their shares, so far behind them it needs none.
-- p_rests: the starts that are left of each open lane's turn, in the order of the turns; null: the
-- lane is not open.
CREATE OR REPLACE FUNCTION sluice.lane_depths(
  p_rests int[], p_shares int[], p_slots int, p_heads int, p_open_heads int
) RETURNS int[] LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN ARRAY(
    SELECT greatest(
      p_heads, CASE WHEN o.rest > 0 THEN p_open_heads END,
      CASE
        WHEN o.earlier < 4 * p_slots
          THEN 1 + least(
            p_slots, o.rest + o.share * ceil(greatest(0, p_slots - o.rests)::float8 / o.shares)
          )
      END
    )::int
    FROM (
      SELECT l.n, l.rest, l.share, sum(l.rest) OVER () AS rests,
        sum(l.share) FILTER (WHERE l.rest > 0) OVER () AS shares,
        sum(l.rest) OVER (ORDER BY l.n ROWS UNBOUNDED PRECEDING) - l.rest AS earlier
      FROM unnest(p_rests, p_shares) WITH ORDINALITY l(rest, share, n)
    ) o
    ORDER BY o.n
  );
END $f$;

-- The rows of lanes, as JSON; and by lane, in the same order: its number, the lane that holds its
-- jobs, and how many of them to read. r_scanned: some lane has a scan cursor.
CREATE OR REPLACE FUNCTION sluice.read_lanes(
  p_lanes bigint[], p_deep bigint[], p_slots int, p_heads int, p_open_heads int,
  p_deep_heads int, OUT r_rows json, OUT r_ids bigint[], OUT r_jobs text[], OUT r_depths int[],
  OUT r_scanned boolean
) LANGUAGE plpgsql STABLE AS $f$
DECLARE v_rests int[]; v_shares int[]; v_open int; v_most int;
BEGIN
  SELECT json_agg({{lane_as_read}}), array_agg(l.id), array_agg(coalesce(l.base, l.key)),
    bool_or(l.sieve IS NOT NULL),
    array_agg(
      CASE
        WHEN l.state IN ({{lane.open}}, {{lane.parked}})
          THEN least(p_slots, greatest(1, l.share - l.taken))
      END
    ), array_agg(l.share), count(*) FILTER (WHERE l.state IN ({{lane.open}}, {{lane.parked}})),
    max(l.share)
  INTO r_rows, r_ids, r_jobs, r_scanned, v_rests, v_shares, v_open, v_most
  FROM unnest(p_lanes) d(id),
    LATERAL (SELECT * FROM sluice.lanes WHERE id = d.id {{apart}}) l;
  IF r_ids IS NULL THEN RETURN; END IF;
  r_depths := CASE
    WHEN v_most > 1 OR v_open < cardinality(r_ids)
      THEN sluice.lane_depths(v_rests, v_shares, p_slots, p_heads, p_open_heads)
    ELSE array_fill(
      greatest(p_heads, p_open_heads, 1 + ceil(p_slots::float8 / v_open)::int),
      ARRAY[cardinality(r_ids)]
    )
  END;
  IF cardinality(p_deep) > 0 THEN
    r_depths := ARRAY(
      SELECT CASE WHEN d.id = ANY (p_deep) THEN greatest(d.depth, p_deep_heads) ELSE d.depth END
      FROM unnest(r_ids, r_depths) d(id, depth)
    );
  END IF;
END $f$;

-- The deputies of wait lists that stand in the lists of these buckets, as rows of lanes, without
-- those that are read anyhow. Of thousands, few stand in the way of a lane that is read.
CREATE OR REPLACE FUNCTION sluice.read_deputies(
  p_lined bigint[], p_buckets bigint[], p_lanes bigint[]
) RETURNS json LANGUAGE plpgsql STABLE
{{by_list}} AS $f$
BEGIN
  RETURN (
    SELECT json_agg({{lane_as_read}})
    FROM sluice.lanes l
    WHERE l.deputy_of = ANY (p_lined) AND l.bucket IN (SELECT unnest(p_buckets))
      AND l.id NOT IN (SELECT unnest(p_lanes))
  );
END $f$;

-- The first waiting jobs of lanes, by columns: JSON of rows takes the server twice the time.
-- Unlisted: the task, if the claimer does not list it.
CREATE OR REPLACE FUNCTION sluice.read_heads(
  p_ids bigint[], p_jobs text[], p_depths int[], p_tasks text[], p_skip bigint[]
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
DECLARE
  v_lanes bigint[]; v_seqs bigint[]; v_priorities bigint[]; v_weights text[]; v_attempts int[];
  v_since bigint[]; v_given bigint[]; v_unlisted text[]; v_latest bigint[];
BEGIN
  SELECT array_agg(l.id), array_agg(h.seq), array_agg(h.priority),
    CASE WHEN count(h.weights) > 0 THEN array_agg(h.weights) END, array_agg(h.attempt),
    array_agg(h.since), array_agg(h.given),
    CASE WHEN count(h.unlisted) > 0 THEN array_agg(h.unlisted) END,
    CASE WHEN count(h.latest) > 0 THEN array_agg(h.latest) END
  INTO v_lanes, v_seqs, v_priorities, v_weights, v_attempts, v_since, v_given, v_unlisted, v_latest
  FROM unnest(p_ids, p_jobs, p_depths) l(id, jobs, depth),
    LATERAL (
      SELECT j.seq, j.priority, j.weights, j.attempt, j.since,
        coalesce(j.asked, j.priority) AS given,
        CASE WHEN j.task <> ALL (p_tasks) THEN j.task END AS unlisted, j.due AS latest
      FROM sluice.jobs j
      WHERE j.lane = l.jobs AND j.state = {{job.available}} AND j.seq <> ALL (p_skip)
      ORDER BY j.priority DESC, j.seq
      LIMIT l.depth
    ) h;
  RETURN json_build_array(
    v_lanes, v_seqs, v_priorities, v_weights, v_attempts, v_since, v_given, v_unlisted, v_latest
  );
END $f$;
