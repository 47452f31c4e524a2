-- The work of a claim before it reads, in a transaction of its own.
--
-- Only a claim writes lanes, and only under the lock of their queue. Every other change of a lane's
-- head inserts a row into `arrivals`. A claim then reads the head from the lane's jobs, so that a
-- row may come late, twice, or for a job that has gone again.

-- Takes in the arrivals of these queues. It opens lanes that were empty, and lanes whose head was
-- outranked or has gone. New lanes stand behind p_turn, each at a turn of its own, since equal
-- turns would break into turns of several starts. A lane without jobs that a live worker lists is
-- parked at once, so that no decision examines it. p_tasks, p_known: the claimer's tasks, and the
-- name of that set; null: it takes any. Returns the last turn assigned, and the kinds of parked
-- jobs.
CREATE OR REPLACE FUNCTION sluice.take_arrivals(
  p_queues text[], p_turn bigint, p_tasks text[], p_known text, p_worker bigint
) RETURNS json LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE
  v_now bigint; v_keys text[]; v_queues text[]; v_uses text[]; v_looks boolean[];
  v_fair text[]; v_shares int[]; v_levels bigint[]; v_firsts bigint[]; woken bigint[];
  v_reshared boolean; v_apart boolean; v_spread text[]; v_all text[]; v_given int[]; v_new record;
  v_turn bigint := p_turn;
  v_seen pg_snapshot := sluice.taken_in(p_queues); v_later xid8 := pg_snapshot_xmax(v_seen);
  v_open xid8[] := ARRAY(SELECT pg_snapshot_xip(v_seen)); v_count int; v_parked bigint[];
  v_shared text[] := sluice.shared_queues(p_queues); v_striped boolean := v_shared <> p_queues;
  v_row record; v_rows tid[] := '{}';
BEGIN
  IF NOT sluice.look_arrivals(p_queues) THEN RETURN json_build_array(v_turn, NULL); END IF;
  PERFORM sluice.lock_queues(p_queues);
  v_now := sluice.now_us();
  v_count := 0;
  -- Before the rows are found: one that is committed meanwhile is found by the next claim.
  v_seen := pg_current_snapshot();
  FOR v_row IN
    (
      SELECT ctid, cardinality(lanes) AS lanes FROM sluice.arrivals
      WHERE queue = ANY (v_shared) AND xid = ANY (v_open)
        AND (NOT v_striped OR sluice.lane_queue(queue, lane) = ANY (p_queues))
      LIMIT 1000
    )
    UNION ALL (
      SELECT ctid, cardinality(lanes) FROM sluice.arrivals
      WHERE queue = ANY (v_shared) AND xid >= v_later
        AND (NOT v_striped OR sluice.lane_queue(queue, lane) = ANY (p_queues))
      ORDER BY queue, xid, id LIMIT 1000
    )
  LOOP
    v_rows := v_rows || v_row.ctid;
    v_count := v_count + coalesce(v_row.lanes, 1);
    EXIT WHEN v_count >= 1000;
  END LOOP;
  WITH gone AS (
    -- By their place: nothing updates a row of this table.
    DELETE FROM sluice.arrivals WHERE ctid = ANY (v_rows)
    RETURNING id, queue, lane, uses, fair, share, look, level, first, lanes, firsts
  ), met AS (
    SELECT g.id, g.queue, coalesce(u.lane, g.lane) AS lane,
      CASE WHEN g.lanes IS NULL THEN g.uses END AS uses, g.fair, g.share, g.look, g.level,
      coalesce(u.first, g.first) AS first
    FROM gone g LEFT JOIN LATERAL unnest(g.lanes, g.firsts) u(lane, first) ON true
  ), passed_on AS (
    -- They came together before the queue had stripes. Each goes to its own.
    INSERT INTO sluice.arrivals (queue, lane, uses, look, level, first, lanes, firsts)
    SELECT queue, lane, '[]', look, level, first, ARRAY[lane], ARRAY[first] FROM met
    WHERE v_striped AND sluice.lane_queue(queue, lane) <> ALL (p_queues)
  ), each AS (
  SELECT lane, min(queue) AS queue, min(uses) AS uses, min(fair) AS fair,
    -- A sort in each group of one row would cost more than all else.
    (max(ARRAY[id, share]) FILTER (WHERE share IS NOT NULL))[2] AS share, bool_or(look) AS look,
    CASE WHEN bool_and(level IS NOT NULL) THEN (max(ARRAY[level, -first]))[1] END AS level,
    -(max(ARRAY[level, -first]))[2] AS first
    FROM met WHERE NOT v_striped OR sluice.lane_queue(queue, lane) = ANY (p_queues)
    GROUP BY lane)
  SELECT array_agg(e.lane), array_agg(e.queue), array_agg(e.uses), array_agg(e.fair),
    array_agg(e.share), array_agg(e.look), array_agg(e.level), array_agg(e.first)
  INTO v_keys, v_queues, v_uses, v_fair, v_shares, v_looks, v_levels, v_firsts
  FROM each e;
  IF v_count < 1000 THEN PERFORM sluice.remember_taken_in(p_queues, v_seen); END IF;
  IF v_keys IS NULL THEN RETURN json_build_array(v_turn, NULL); END IF;
  {{in_order_from_here}};
  v_apart := EXISTS (SELECT 1 FROM sluice.apart);
  v_all := v_keys;
  v_given := v_shares;
  -- Never by index: to reach one text of an array the server walks over all before it. A job behind
  -- the head of a lane that is known to have jobs changes nothing there: it just joins. So it does
  -- in a parked lane, if the claimer has parked it and nothing in it is listed even now.
  SELECT coalesce(bool_or(a.reshares), false), array_agg(a.key) FILTER (WHERE NOT a.joins),
    array_agg(a.queue) FILTER (WHERE NOT a.joins), array_agg(a.uses) FILTER (WHERE NOT a.joins),
    array_agg(a.fair) FILTER (WHERE NOT a.joins), array_agg(a.share) FILTER (WHERE NOT a.joins),
    array_agg(a.look) FILTER (WHERE NOT a.joins), array_agg(a.level) FILTER (WHERE NOT a.joins),
    array_agg(a.first) FILTER (WHERE NOT a.joins),
    array_agg(a.parked) FILTER (WHERE a.joins AND a.parked IS NOT NULL)
  INTO v_reshared, v_keys, v_queues, v_uses, v_fair, v_shares, v_looks, v_levels, v_firsts, v_parked
  FROM (
    SELECT n.*, l.share <> n.share AS reshares,
      CASE WHEN l.state = {{lane.parked}} THEN l.head END AS parked,
      NOT v_apart AND NOT n.look AND n.level IS NOT NULL AND l.sieve IS NULL
        AND coalesce(
          l.state IN ({{lane.open}}, {{lane.waiting}}, {{lane.parked}})
            AND (
              n.level < sluice.lane_level(l.priority)
                OR (n.level = sluice.lane_level(l.priority) AND n.first >= l.head)
            )
            AND CASE
              WHEN l.state = {{lane.parked}}
                THEN l.passed = p_known
                  AND sluice.is_unlisted(n.queue, n.key, p_tasks, p_worker, v_now)
              ELSE true
            END,
          false
        ) AS joins
    FROM unnest(v_keys, v_queues, v_uses, v_fair, v_shares, v_looks, v_levels, v_firsts) n(
        key, queue, uses, fair, share, look, level, first
      )
    LEFT JOIN LATERAL (SELECT * FROM sluice.lanes WHERE key = n.key {{apart}}) l ON true
    -- Else each of the columns that are made of it would compute it again.
    {{apart}}
  ) a;
  -- A lane has the share of the job that came last.
  IF v_reshared THEN
    UPDATE sluice.lanes l
    SET share = a.share
    FROM unnest(v_all, v_given) a(key, share) WHERE l.key = a.key AND l.share <> a.share;
  END IF;
  IF v_keys IS NULL AND v_parked IS NULL THEN RETURN json_build_array(v_turn, NULL); END IF;
  IF v_apart THEN
    -- The limits of lanes that came together. If their first jobs have gone: those of any.
    SELECT array_agg(n.key), array_agg(n.queue), array_agg(coalesce(n.uses, j.uses)),
      array_agg(coalesce(n.fair, j.fair)), array_agg(n.share), array_agg(n.look),
      array_agg(n.level), array_agg(n.first)
    INTO v_keys, v_queues, v_uses, v_fair, v_shares, v_looks, v_levels, v_firsts
    FROM unnest(v_keys, v_queues, v_uses, v_fair, v_shares, v_looks, v_levels, v_firsts) n(
        key, queue, uses, fair, share, look, level, first
      )
    LEFT JOIN LATERAL (
      SELECT j.uses, j.fair FROM sluice.jobs j
      WHERE n.uses IS NULL AND j.seq = n.first AND j.lane = n.key
      UNION ALL (
        SELECT j.uses, j.fair FROM sluice.jobs j
        WHERE n.uses IS NULL AND j.lane = n.key AND j.state = {{job.available}}
        ORDER BY j.priority DESC, j.seq LIMIT 1
      )
      LIMIT 1
    ) j ON true
    WHERE n.uses IS NOT NULL OR j.uses IS NOT NULL;
    IF v_keys IS NULL THEN RETURN json_build_array(v_turn, NULL); END IF;
    -- Whether a new lane is spread is known once it has its buckets.
    PERFORM sluice.create_lanes(
      array_agg(a.key), array_agg(sluice.lane_queue(a.queue, a.key)), array_agg(a.uses),
      array_agg(a.fair), array_agg(a.share), NULL, NULL, v_now
    )
    FROM unnest(v_keys, v_queues, v_uses, v_fair, v_shares) a(key, queue, uses, fair, share)
    WHERE NOT EXISTS (SELECT 1 FROM sluice.lanes l WHERE l.key = a.key)
    HAVING count(*) > 0;
    v_spread := sluice.spread_lanes(v_keys, v_uses, v_now);
  END IF;
  IF v_spread IS NOT NULL THEN
    -- An arrival in a spread lane is one in each view of it.
    SELECT array_agg(coalesce(v.key, a.key)), array_agg(a.look AND v.key IS NULL),
      array_agg(a.level), array_agg(a.first)
    INTO v_keys, v_looks, v_levels, v_firsts
    FROM unnest(v_keys, v_looks, v_levels, v_firsts) a(key, look, level, first)
    LEFT JOIN sluice.lanes v ON v.base = a.key
    WHERE v.key IS NOT NULL OR a.key <> ALL (v_spread);
    v_queues := NULL;
    v_uses := NULL;
    v_fair := NULL;
    v_shares := NULL;
  END IF;
  v_turn := greatest(v_turn, v_now);
  WITH head AS MATERIALIZED (
    SELECT l.id, coalesce(l.queue, a.queue) AS queue, coalesce(l.state, {{lane.empty}}) AS state,
      l.bucket, l.deputy_of, h.priority, h.seq, h.task, a.key, coalesce(a.uses, h.uses) AS uses,
      coalesce(a.fair, h.fair) AS fair, a.share,
      CASE
        WHEN h.task <> ALL (p_tasks)
          THEN sluice.is_unlisted(
            coalesce(l.queue, a.queue), coalesce(l.base, a.key), p_tasks, p_worker, v_now
          )
        ELSE false
      END AS unlisted,
      -- A job behind all that the late scan read leaves the scan cursor valid. Any other change
      -- restarts the scan.
      CASE
        WHEN a.level < (l.sieve::json ->> {{scan_cursor.level}})::bigint
          OR (
            a.level = (l.sieve::json ->> {{scan_cursor.level}})::bigint
              AND a.first > (l.sieve::json ->> {{scan_cursor.seq}})::bigint
          )
          THEN l.sieve
      END AS sieve,
      CASE
        WHEN coalesce(l.state, {{lane.empty}}) = {{lane.empty}}
          THEN row_number() OVER (ORDER BY h.seq)
      END AS place
    FROM unnest(v_keys, v_looks, v_levels, v_firsts, v_queues, v_uses, v_fair, v_shares) a(
        key, look, level, first, queue, uses, fair, share
      )
    LEFT JOIN LATERAL (SELECT * FROM sluice.lanes WHERE key = a.key {{apart}}) l ON true
    LEFT JOIN LATERAL
      (
        -- The jobs of a lane have the same limits.
        SELECT j.priority, j.seq, j.task, j.uses, j.fair FROM sluice.jobs j
        WHERE j.lane = coalesce(l.base, a.key) AND j.state = {{job.available}}
        ORDER BY j.priority DESC, j.seq LIMIT 1
      ) h ON true
    WHERE CASE
      -- A lane that is not there yet keeps the share of a job that waits for its time.
      WHEN h.seq IS NULL
        THEN coalesce(l.state <> {{lane.empty}}, a.share <> 1 AND a.uses IS NOT NULL)
      WHEN coalesce(l.state, {{lane.empty}}) = {{lane.empty}} THEN true
      ELSE (h.priority, h.seq) <> (sluice.lane_level(l.priority), l.head) OR l.sieve IS NOT NULL
        OR (a.look AND l.state = {{lane.waiting}}) OR l.state = {{lane.parked}}
    END
  )
  SELECT (
    SELECT array_agg(DISTINCT b) FROM head h, unnest(ARRAY[h.bucket, h.deputy_of]) b
    WHERE b IS NOT NULL
  ) AS woken,
    v_turn + coalesce(max(place), 0) AS turn,
    (
      SELECT json_agg(u)
      FROM (
        SELECT sluice.shared_queue(h.queue) AS queue, h.task FROM head h WHERE h.unlisted
        UNION SELECT j.queue, j.task FROM sluice.jobs j
        WHERE j.seq = ANY (v_parked) AND j.state + 0 = {{job.available}}
      ) u
    ) AS unknown,
    array_agg(key) FILTER (WHERE id IS NULL) AS keys,
    array_agg(sluice.lane_queue(queue, key)) FILTER (WHERE id IS NULL) AS queues,
    array_agg(uses) FILTER (WHERE id IS NULL) AS uses,
    array_agg(fair) FILTER (WHERE id IS NULL) AS fair,
    array_agg(share) FILTER (WHERE id IS NULL) AS shares,
    array_agg(
      CASE WHEN unlisted THEN {{lane.parked}} WHEN seq IS NOT NULL THEN {{lane.open}} END
    ) FILTER (WHERE id IS NULL) AS states,
    array_agg(priority) FILTER (WHERE id IS NULL) AS priorities,
    array_agg(seq) FILTER (WHERE id IS NULL) AS heads,
    array_agg(v_turn + place) FILTER (WHERE id IS NULL) AS turns,
    array_agg(CASE WHEN unlisted THEN p_known END) FILTER (WHERE id IS NULL) AS passed,
    array_agg(id) FILTER (WHERE id IS NOT NULL) AS met,
    array_agg(priority) FILTER (WHERE id IS NOT NULL) AS met_priorities,
    array_agg(seq) FILTER (WHERE id IS NOT NULL) AS met_heads,
    array_agg(v_turn + place) FILTER (WHERE id IS NOT NULL) AS met_turns,
    array_agg(sieve) FILTER (WHERE id IS NOT NULL) AS met_sieves,
    array_agg(unlisted) FILTER (WHERE id IS NOT NULL) AS met_unlisted
  INTO v_new
  FROM head;
  woken := v_new.woken;
  IF v_new.met IS NOT NULL THEN
    PERFORM sluice.write_heads(
      v_new.met, v_new.met_priorities, v_new.met_heads, v_new.met_turns, v_new.met_sieves,
      v_new.met_unlisted, p_known, v_now
    );
  END IF;
  -- A new lane begins with its first job, at its turn, or empty.
  IF v_new.keys IS NOT NULL THEN
    PERFORM sluice.create_lanes(
      v_new.keys, v_new.queues, v_new.uses, v_new.fair, v_new.shares, NULL, NULL, v_now,
      v_new.states, v_new.priorities, v_new.heads, v_new.turns, v_new.passed
    );
  END IF;
  IF woken IS NOT NULL THEN
    PERFORM sluice.wake_lines(woken, v_now);
  END IF;
  RETURN json_build_array(v_new.turn, v_new.unknown);
END $f$;

-- Writes the heads of lanes that are there. A null head: the lane has no jobs any more.
CREATE OR REPLACE FUNCTION sluice.write_heads(
  p_ids bigint[], p_priorities bigint[], p_heads bigint[], p_turns bigint[], p_sieves text[],
  p_unlisted boolean[], p_known text, p_now bigint
) RETURNS void LANGUAGE plpgsql {{by_list}} AS $f$
BEGIN
  UPDATE sluice.lanes l SET
    state = CASE
      WHEN h.seq IS NULL THEN {{lane.empty}}
      WHEN h.unlisted THEN {{lane.parked}}
      ELSE {{lane.open}}
    END,
    passed = CASE WHEN h.unlisted THEN p_known END, bucket = NULL, over = '', deputy_of = NULL,
    sieve = CASE
      WHEN h.seq IS NOT NULL AND l.state <> {{lane.empty}} AND NOT h.unlisted THEN h.sieve
    END,
    priority = coalesce(h.priority, l.priority), head = coalesce(h.seq, l.head),
    turn = CASE WHEN l.state = {{lane.empty}} THEN greatest(l.turn, h.turn) ELSE l.turn END,
    taken = CASE WHEN l.state = {{lane.empty}} OR h.seq IS NULL THEN 0 ELSE l.taken END,
    emptied = CASE WHEN h.seq IS NULL THEN p_now ELSE l.emptied END
  FROM unnest(p_ids, p_priorities, p_heads, p_turns, p_sieves, p_unlisted)
    h(id, priority, seq, turn, sieve, unlisted)
  WHERE l.id = ANY (p_ids) AND l.id = h.id;
END $f$;

-- The signature that processes of 0.1.0 call while a newer one upgrades the store.
CREATE OR REPLACE FUNCTION sluice.take_arrivals(
  p_queues text[], p_turn bigint
) RETURNS bigint LANGUAGE sql AS $f$
  SELECT (sluice.take_arrivals(p_queues, p_turn, NULL, NULL, 0) ->> 0)::bigint $f$;
