-- The first round trip of a claim. It locks the queue and all buckets that the decision may need,
-- then reads the decision's rows, then the clock.
--
-- It finds these rows twice: before the locks to know what to lock, and after them, since only rows
-- read under locks are current. Open lanes and due buckets are found once. No other process changes
-- an open lane without the queue's lock. The next wakeup covers rows that become due meanwhile.

-- The first lanes of each group of a bucket's wait list. One index probe finds each group. A list
-- of more than eight groups that has at most p_short lanes is read whole, and gives the first lanes
-- of each queue in their order; so is one of more than 32 groups with at most 4 times as many,
-- and one of more than 128 with 16 times as many. p_in_order: which of both, if that is known.
-- p_groups: how many lanes of single groups, if they are more than p_count.
CREATE OR REPLACE FUNCTION sluice.line_first(
  p_bucket bigint, p_count int, p_ordered int, p_short int, p_in_order boolean, p_groups json,
  OUT r_ids bigint[], OUT r_in_order boolean
) LANGUAGE plpgsql STABLE AS $f$
DECLARE v_queue text; v_over text; v_groups int := 0;
BEGIN
  r_ids := '{}';
  r_in_order := coalesce(p_in_order, false);
  SELECT l.queue, l.over INTO v_queue, v_over FROM sluice.lanes l
  WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}}
  ORDER BY l.queue, l.over LIMIT 1;
  WHILE FOUND AND NOT r_in_order LOOP
    v_groups := v_groups + 1;
    IF p_in_order IS NULL AND v_groups IN (9, 33, 129) THEN
      r_in_order := p_short > 0 AND (
        SELECT 1 FROM sluice.lanes l
        WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}}
        OFFSET p_short * CASE v_groups WHEN 9 THEN 1 WHEN 33 THEN 4 ELSE 16 END LIMIT 1
      ) IS NULL;
      EXIT WHEN r_in_order;
    END IF;
    r_ids := r_ids || ARRAY(
      SELECT l.id FROM sluice.lanes l
      WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}} AND l.queue = v_queue
        AND l.over = v_over
        ORDER BY l.priority DESC, l.turn, l.head
        LIMIT greatest(p_count, (p_groups ->> v_over)::int)
    );
    SELECT l.queue, l.over INTO v_queue, v_over FROM sluice.lanes l
    WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}}
      AND (l.queue, l.over) > (v_queue, v_over)
    ORDER BY l.queue, l.over LIMIT 1;
  END LOOP;
  IF NOT r_in_order THEN RETURN; END IF;
  r_ids := '{}';
  SELECT l.queue INTO v_queue FROM sluice.lanes l
  WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}}
  ORDER BY l.queue LIMIT 1;
  WHILE FOUND LOOP
    r_ids := r_ids || ARRAY(
      SELECT l.id FROM sluice.lanes l
      WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}} AND l.queue = v_queue
      ORDER BY l.priority DESC, l.turn, l.head, l.id LIMIT p_ordered
    );
    SELECT l.queue INTO v_queue FROM sluice.lanes l
    WHERE l.bucket = p_bucket AND l.state = {{lane.waiting}} AND l.queue > v_queue
    ORDER BY l.queue LIMIT 1;
  END LOOP;
END $f$;

-- The rows that a decision may need: open lanes, due buckets, the wait lists of their buckets, the
-- buckets of those lists' lanes, and so on p_depth times. Known open lanes are not searched again.
-- Of the lists p_lists, p_lines lanes are read in place of p_line, in the way of p_orders, and of
-- their groups p_groups as many as these say. p_apart: the queues whose deputies it leaves out.
CREATE OR REPLACE FUNCTION sluice.claim_reach(
  p_queues text[], p_known bigint[], p_due bigint[], p_lanes bigint[], p_buckets bigint[],
  p_open int, p_line int, p_ordered int, p_short int, p_lists bigint[], p_lines int[],
  p_orders boolean[], p_groups json[], p_depth int, p_apart text[],
  OUT open_lanes bigint[], OUT lanes bigint[], OUT buckets bigint[], OUT lined bigint[],
  OUT in_order bigint[], OUT line_buckets bigint[], OUT line_lanes bigint[]
) LANGUAGE plpgsql {{by_order}} AS $f$
DECLARE
  fresh_lanes bigint[]; fresh bigint[]; with_line bigint[]; depth int := 0; at_buckets bigint[];
  at_lanes bigint[]; at_once bigint[];
BEGIN
  open_lanes := coalesce(p_known, ARRAY(SELECT l.id FROM unnest(p_queues) q, LATERAL (
    SELECT o.id, o.priority, o.turn, o.head FROM sluice.lanes o
    WHERE o.queue = q AND o.state = {{lane.open}} ORDER BY o.priority DESC, o.turn, o.head
    LIMIT p_open) l));
  lanes := open_lanes || ARRAY(
    SELECT l.id FROM sluice.lanes l WHERE l.id = ANY (p_lanes) AND l.id <> ALL (open_lanes)
  );
  buckets := '{}';
  lined := '{}';
  in_order := '{}';
  line_buckets := '{}';
  line_lanes := '{}';
  fresh_lanes := lanes;
  fresh := p_due || p_buckets;
  LOOP
    -- By hash: a comparison with each id of a list takes time by the square of their number.
    fresh := ARRAY(
      (
        SELECT unnest(fresh)
        UNION ALL
        SELECT unnest(l.buckets) FROM sluice.lanes l WHERE l.id = ANY (fresh_lanes)
      )
      EXCEPT
      SELECT unnest(buckets)
    );
    EXIT WHEN cardinality(fresh) = 0;
    buckets := buckets || fresh;
    EXIT WHEN depth >= p_depth;
    depth := depth + 1;
    -- By their ids: written so that no partial index seems to fit.
    with_line := ARRAY(
      SELECT b.id FROM sluice.buckets b WHERE b.id = ANY (fresh) AND b.wake_at + 0 IS NOT NULL
    );
    lined := lined || fresh;
    SELECT coalesce(array_agg(b), '{}'), coalesce(array_agg(i.id), '{}'),
      coalesce(array_agg(b) FILTER (WHERE f.r_in_order AND i.n = 1), '{}')
    INTO at_buckets, at_lanes, at_once
    FROM unnest(with_line) b
      LEFT JOIN unnest(p_lists, p_lines, p_orders, p_groups) p(id, line, in_order, groups)
        ON p.id = b,
      sluice.line_first(
        b, greatest(p.line, p_line), greatest(p.line, p_ordered), p_short, p.in_order, p.groups
      ) f,
      unnest(f.r_ids) WITH ORDINALITY i(id, n);
    in_order := in_order || at_once;
    line_buckets := line_buckets || at_buckets;
    line_lanes := line_lanes || at_lanes;
    fresh_lanes := ARRAY(
      (
        SELECT unnest(at_lanes)
        UNION ALL
        SELECT l.id FROM sluice.lanes l WHERE l.deputy_of = ANY (fresh) AND l.queue <> ALL (p_apart)
      )
      EXCEPT
      SELECT unnest(lanes)
    );
    lanes := lanes || fresh_lanes;
    EXIT WHEN cardinality(fresh_lanes) = 0;
    fresh := '{}';
  END LOOP;
END $f$;

-- In plpgsql, which caches plans; plain SQL would plan at each call. The next due times of each
-- kind, on the clocks of that kind.
CREATE OR REPLACE FUNCTION sluice.claim_next(
  p_now bigint, p_worker bigint
) RETURNS json LANGUAGE plpgsql STABLE {{by_order}} AS $f$
BEGIN
  RETURN (SELECT json_build_array(
    (SELECT due FROM sluice.jobs WHERE state = {{job.scheduled}} ORDER BY due LIMIT 1),
    (SELECT due FROM sluice.jobs WHERE state = {{job.retryable}} ORDER BY due LIMIT 1),
    (
      SELECT due FROM sluice.jobs WHERE state = {{job.available}} AND due IS NOT NULL ORDER BY due
      LIMIT 1
    ),
    least(
      (
        SELECT wake_at FROM sluice.buckets WHERE worker = 0 AND wake_at > p_now ORDER BY wake_at
        LIMIT 1
      ),
      CASE
        WHEN EXISTS (SELECT 1 FROM sluice.apart)
          THEN (
            SELECT wake_at FROM sluice.buckets WHERE worker = p_worker AND wake_at > p_now
            ORDER BY wake_at LIMIT 1
          )
      END
    )
  ));
END $f$;

-- The next occurrences on both clocks, and a schedule whose missed occurrences may continue.
CREATE OR REPLACE FUNCTION sluice.claim_fire(
  p_unreadable text[]
) RETURNS json LANGUAGE plpgsql STABLE AS $f$
BEGIN
  RETURN (SELECT json_build_array(
    (
      SELECT next_at FROM sluice.schedules
      WHERE catch_up_to IS NULL AND next_at IS NOT NULL AND NOT wall AND name <> ALL (p_unreadable)
      ORDER BY next_at LIMIT 1
    ),
    (
      SELECT next_at FROM sluice.schedules
      WHERE catch_up_to IS NULL AND next_at IS NOT NULL AND wall AND name <> ALL (p_unreadable)
      ORDER BY next_at LIMIT 1
    ),
    (
      SELECT s.name FROM sluice.schedules s
      WHERE s.catch_up_to IS NOT NULL AND s.name <> ALL (p_unreadable) AND NOT EXISTS (
        SELECT 1 FROM sluice.jobs j
        WHERE j.id = s.last_job
          AND j.state IN (
            {{job.scheduled}}, {{job.available}}, {{job.active}}, {{job.retryable}}, {{job.pending}}
          )
      )
      LIMIT 1
    )
  ));
END $f$;

-- The queues of a claim that have a free slot.
CREATE OR REPLACE FUNCTION sluice.queues_with_room(p json) RETURNS text[] LANGUAGE plpgsql AS $f$
BEGIN
  RETURN ARRAY(
    SELECT u ->> {{unlimited.queue}} FROM json_array_elements(p -> 'line_of') u
    WHERE (u ->> {{unlimited.slots}})::int > 0
  );
END $f$;

-- The wait lists that are due by p_until, the longest due first: those with a lane of these queues,
-- those without any lane, and those of a limit that drops jobs in other lists. Thousands of others
-- may stay due for as long as their queue is full or has no worker, or the process of the claimer
-- lacks the backend of their limit, which p_unserved names.
CREATE OR REPLACE FUNCTION sluice.due_lists(
  p_worker bigint, p_until bigint, p_queues text[], p_limit int, p_unserved text[]
) RETURNS bigint[] LANGUAGE plpgsql
{{by_order}} AS $f$
BEGIN
  RETURN ARRAY(
    SELECT b.id FROM sluice.buckets b
    WHERE b.worker = p_worker AND b.wake_at <= p_until
      -- Each is a look for one row: the planner would answer an EXISTS here from all lanes at once.
      AND CASE
        WHEN b.limit_name <> ALL (p_unserved) AND (
          SELECT 1 FROM sluice.lanes l
          WHERE l.bucket = b.id AND l.state = {{lane.waiting}} AND l.queue = ANY (p_queues) LIMIT 1
        ) = 1 THEN true
        WHEN (
          SELECT 1 FROM sluice.lanes l
          WHERE l.bucket = b.id AND l.state = {{lane.waiting}} LIMIT 1
        ) IS NULL THEN true
        WHEN b.limit_name = ANY (p_unserved) THEN false
        ELSE (SELECT 1 FROM sluice.drop_watch w WHERE w.bucket = b.id LIMIT 1) = 1
      END
    ORDER BY b.wake_at LIMIT p_limit
  );
END $f$;

-- Locks, then reads, then the clock. Null: another transaction locks a bucket that this claim could
-- not know before, so the claim starts again.
CREATE OR REPLACE FUNCTION sluice.claim_look(p json) RETURNS text LANGUAGE plpgsql
{{by_index}} AS $f$
DECLARE
  v_queues text[] := ARRAY(SELECT json_array_elements_text(p -> 'queues'));
  v_due bigint[]; v_own bigint[];
  v_seed_lanes bigint[] := ARRAY(SELECT json_array_elements_text(p -> 'lanes')::bigint);
  v_seeds bigint[] := ARRAY(SELECT json_array_elements_text(p -> 'buckets')::bigint);
  v_deep bigint[] := v_seed_lanes;
  v_skip bigint[] := ARRAY(SELECT json_array_elements_text(p -> 'skip')::bigint);
  v_open int := (p ->> 'open')::int; v_line int := (p ->> 'line')::int;
  -- A process of an earlier version sends none: it knows groups alone.
  v_short int := coalesce((p ->> 'short')::int, 0);
  v_ordered int := coalesce((p ->> 'orderedLine')::int, v_line);
  v_lists bigint[]; v_lines int[]; v_orders boolean[]; v_groups json[];
  -- Deputies of these queues stand in the way of lanes, and are not examined themselves.
  v_apart_of text[] := '{}';
  v_depth int := (p ->> 'depth')::int;
  v_due_at_most int := (p ->> 'due')::int; v_heads int := (p ->> 'heads')::int;
  v_deep_heads int := (p ->> 'deepHeads')::int; found record;
  v_worker bigint := (p ->> 'worker')::bigint; v_apart boolean; v_all text[];
  v_tasks text[] := CASE
    WHEN json_typeof(p -> 'tasks') = 'array'
      THEN ARRAY(SELECT json_array_elements_text(p -> 'tasks'))
  END;
  v_expects_unlisted boolean := (p ->> 'strange')::boolean; v_parked bigint[]; v_lanes bigint[];
  v_chosen record; v_unstriped text[]; v_held json; reach record; locked bigint[]; more bigint[];
  v_now bigint; v_due_at bigint; v_ready text[]; answer text;
  v_unserved text[] := ARRAY(SELECT json_array_elements_text(p -> 'unserved'));
BEGIN
  v_now := sluice.now_us();
  SELECT array_agg((l ->> {{list_read.bucket}})::bigint),
    array_agg((l ->> {{list_read.line}})::int), array_agg((l ->> {{list_read.in_order}})::boolean),
    array_agg(l -> {{list_read.groups}})
  INTO v_lists, v_lines, v_orders, v_groups FROM json_array_elements(p -> 'lists') l;
  SELECT * INTO v_chosen
  FROM sluice.choose_stripes(p, false);
  -- A change of limits waits until no claim decides with the old ones.
  PERFORM pg_advisory_xact_lock_shared(hashtext('sluice.limits'), 0);
  IF json_array_length(p -> 'uses') > 0 THEN
    v_own := sluice.own_buckets(p -> 'uses');
  END IF;
  v_held := (
    SELECT json_agg(json_build_array(q.name, q.paused, q.limit_name) ORDER BY q.name)
    FROM sluice.queues q WHERE q.name = ANY (v_queues) AND (q.paused OR q.limit_name IS NOT NULL)
  );
  IF v_held IS NOT NULL THEN
    v_queues := ARRAY(
      SELECT q FROM unnest(v_queues) q
      WHERE q NOT IN (
        SELECT h ->> {{held_queue.queue}} FROM json_array_elements(v_held) h
        WHERE (h ->> {{held_queue.paused}})::boolean
      )
    );
    v_own := v_own || sluice.own_buckets(
      (
        SELECT coalesce(json_agg(json_build_array(h ->> {{held_queue.limit}}, '')), '[]')
        FROM json_array_elements(v_held) h WHERE h ->> {{held_queue.limit}} IS NOT NULL
      )
    );
  END IF;
  -- From here on the names under which lanes stand, without those of paused queues.
  v_unstriped := v_queues;
  IF v_chosen.r_striped THEN
    v_queues := ARRAY(
      SELECT c FROM unnest(v_chosen.r_names) c WHERE sluice.shared_queue(c) = ANY (v_unstriped)
    );
  END IF;
  -- Lanes and wait lists of this worker alone, only if a limit has ever had such.
  v_apart := v_worker <> 0 AND EXISTS (SELECT 1 FROM sluice.apart);
  v_all := CASE
    WHEN v_apart
      THEN v_queues || ARRAY(SELECT sluice.own_queue(q, v_worker) FROM unnest(v_queues) q)
    ELSE v_queues
  END;
  v_parked := sluice.parked_lanes(v_all, p ->> 'known', v_open);
  v_lanes := v_seed_lanes || v_parked;
  -- With the wait lists that come due within the time that the claim looks ahead. Of stripes only
  -- as far as the choice has looked: what comes due since then is the next claim's.
  v_due_at := CASE WHEN v_chosen.r_striped THEN v_now ELSE sluice.now_us() END
    + coalesce((p ->> 'aheadUs')::bigint, 0);
  v_ready := sluice.queues_with_room(p);
  v_ready := ARRAY(SELECT q FROM unnest(v_all) q WHERE sluice.shared_queue(q) = ANY (v_ready));
  -- A process of an earlier version takes all of them for lanes that it may examine.
  IF (p ->> 'deputiesApart')::boolean THEN v_apart_of := v_ready; END IF;
  v_due := sluice.due_lists(0, v_due_at, v_ready, v_due_at_most, v_unserved);
  IF v_apart THEN
    v_due := v_due || sluice.due_lists(v_worker, v_due_at, v_ready, v_due_at_most, v_unserved);
  END IF;
  reach := sluice.claim_reach(
    v_all, NULL, v_due, v_lanes, v_seeds || v_own, v_open, v_line, v_ordered, v_short,
    v_lists, v_lines, v_orders, v_groups, v_depth, v_apart_of
  );
  locked := reach.buckets;
  IF cardinality(locked) > 0 THEN
    PERFORM sluice.lock_buckets(locked);
    -- Wait lists and deputies may have changed before the locks. Open lanes have not: without the
    -- others, there is nothing to find again.
    IF cardinality(reach.lanes) > cardinality(reach.open_lanes)
      OR EXISTS (
        SELECT 1 FROM sluice.buckets WHERE id = ANY (locked) AND wake_at + 0 IS NOT NULL
      )
      OR EXISTS (SELECT 1 FROM sluice.lanes WHERE deputy_of IS NOT NULL)
    THEN
      reach := sluice.claim_reach(
        v_all, reach.open_lanes, v_due, v_lanes, v_seeds || v_own, v_open, v_line, v_ordered,
        v_short, v_lists, v_lines, v_orders, v_groups, v_depth, v_apart_of
      );
      more := ARRAY(SELECT unnest(reach.buckets) EXCEPT SELECT unnest(locked));
      IF cardinality(more) > 0 THEN
        IF cardinality(more) > (
          SELECT count(*) FROM (
            SELECT 1 FROM sluice.buckets WHERE id = ANY (more) ORDER BY id FOR UPDATE SKIP LOCKED
          ) late
        ) THEN
          RETURN NULL;
        END IF;
      END IF;
    END IF;
  END IF;
  v_parked := reach.open_lanes || v_parked;
  found := sluice.read_lanes(
    reach.lanes, v_deep, (p ->> 'slots')::int, v_heads, (p ->> 'openHeads')::int, v_deep_heads
  );
  v_now := sluice.now_us();
  {{in_order_from_here}};
  -- The server prepares each query that stands here, also one that it does not run. So the queries
  -- that few claims need stand in STABLE functions, which read by this statement's snapshot.
  SELECT json_build_object(
    'now', v_now, 'wall', sluice.wall_us(), 'dueUntil', v_due_at,
    'generation', coalesce((SELECT value::bigint FROM sluice.store WHERE name = 'limits'), 0),
    'due', v_due, 'open', v_parked, 'lined', reach.lined, 'inOrder', reach.in_order,
    'lineBuckets', reach.line_buckets, 'lineLanes', reach.line_lanes,
    'own', coalesce(v_own, '{}'), 'held', v_held, 'lanes', found.r_rows, 'depths', found.r_depths,
    'deputies',
    CASE
      WHEN cardinality(v_apart_of) > 0
        AND EXISTS (SELECT 1 FROM sluice.lanes WHERE deputy_of IS NOT NULL)
        THEN sluice.read_deputies(reach.lined, reach.buckets, reach.lanes)
    END,
    'buckets',
    (
      SELECT json_agg(
        json_build_array(
          b.id, b.limit_name, b.key, b.state, b.revision, b.active, b.lanes, b.wake_at, b.deferred,
          b.told, b.worker
        )
      )
      FROM sluice.buckets b WHERE b.id = ANY (reach.buckets)
    ),
    'heads', sluice.read_heads(found.r_ids, found.r_jobs, found.r_depths, v_tasks, v_skip),
    'knownHeads',
    CASE
      WHEN v_expects_unlisted
        THEN sluice.read_known_heads(found.r_ids, found.r_jobs, found.r_depths, v_tasks, v_skip)
    END,
    'behind',
    CASE
      WHEN found.r_scanned
        THEN sluice.read_behind(reach.lanes, v_deep, v_heads, v_deep_heads, v_tasks, v_skip)
    END,
    'line',
    (
      SELECT json_agg(
        json_build_array(
          o.queue, h.seq, h.priority, h.weights, h.attempt, h.since, h.given, h.unlisted
        )
      )
      FROM (
        SELECT q.value ->> {{unlimited.queue}} AS queue, q.value ->> {{unlimited.lane}} AS lane,
          (q.value ->> {{unlimited.slots}})::int AS slots
        FROM json_array_elements(p -> 'line_of') q
      ) o,
        LATERAL (
          SELECT j.seq, j.priority, j.weights, j.attempt, j.since,
            coalesce(j.asked, j.priority) AS given,
            CASE WHEN j.task <> ALL (v_tasks) THEN j.task END AS unlisted
          FROM sluice.jobs j
          WHERE j.lane = o.lane AND j.state = {{job.available}} AND j.seq <> ALL (v_skip)
          ORDER BY j.priority DESC, j.seq LIMIT o.slots
        ) h
      WHERE NOT v_chosen.r_striped OR sluice.lane_queue(o.queue, o.lane) = ANY (v_queues)
    ),
    'knownLine',
    CASE
      WHEN v_expects_unlisted
        THEN sluice.read_known_line(
          p -> 'line_of', CASE WHEN v_chosen.r_striped THEN v_queues END, v_tasks, v_skip
        )
    END,
    'workers',
    CASE WHEN v_expects_unlisted THEN sluice.read_other_workers(v_worker, v_now) END,
    'holds',
    CASE WHEN json_array_length(p -> 'holds') > 0 THEN sluice.read_holds(p -> 'holds') END,
    'watched',
    CASE
      WHEN EXISTS (SELECT 1 FROM sluice.drop_watch)
        THEN sluice.read_watched(reach.buckets, v_all, (p ->> 'watched')::int)
    END,
    'arrived', sluice.has_arrived(v_queues),
    'live',
    (
      SELECT json_agg(DISTINCT q) FROM sluice.workers w, unnest(w.queues) q
      WHERE w.alive_until > v_now AND w.id <> v_worker
        AND NOT EXISTS (SELECT 1 FROM sluice.queues h WHERE h.name = q AND h.paused)
    ),
    'apart',
    CASE WHEN v_apart THEN sluice.read_apart(v_worker, v_now) END,
    'fire', sluice.claim_fire(ARRAY(SELECT json_array_elements_text(p -> 'unreadable'))),
    'unresolved', sluice.claim_unresolved(v_unstriped),
    'stripes',
    CASE
      WHEN v_chosen.r_striped THEN json_build_array(to_json(v_chosen.r_names), v_chosen.r_more)
    END,
    'next', sluice.claim_next(v_due_at, v_worker)
  )::text INTO answer;
  RETURN answer;
END $f$;
