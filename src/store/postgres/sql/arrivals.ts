import { BY_INDEX } from './by-index.ts'

/**
 * Locks, arrivals, promotion: what a claim does before it looks, in a transaction of its own.
 *
 * Only a claim writes lanes, and only under the lock of their queue; all else that changes a lane's head says so by a row in `arrivals`.
 * What a lane's head is now is then read from its jobs, so that a row may come late, twice, or for a job that has gone again.
 *
 * A connection that took in all that a snapshot showed need look from then on only at what the transactions brought that this snapshot did not show: those that
 * were under way, and those that came later. So a row may be committed however late, and what has long been taken in is never read again.
 */
export const ARRIVALS: string = `
-- In the order of the locks' own numbers, so that no two callers wait for each other.
CREATE OR REPLACE FUNCTION sluice.lock_queues(p_queues text[]) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE number int;
BEGIN
  FOR number IN SELECT DISTINCT hashtext('sluice.queue' || q) FROM unnest(p_queues) q ORDER BY 1 LOOP
    PERFORM pg_advisory_xact_lock(hashtext('sluice.'), number);
  END LOOP;
END $f$;

CREATE OR REPLACE FUNCTION sluice.lock_buckets(p_ids bigint[]) RETURNS int LANGUAGE plpgsql AS $f$
DECLARE found int;
BEGIN
  WITH locked AS (SELECT id FROM sluice.buckets WHERE id = ANY (p_ids) ORDER BY id FOR UPDATE) SELECT count(*) INTO found FROM locked;
  RETURN found;
END $f$;

-- When an available job is given up: the end of its longest wait or its expiry, whichever is first.
CREATE OR REPLACE FUNCTION sluice.latest_start(p_uses text, p_expires bigint, p_now bigint, p_wall bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $f$
DECLARE latest bigint := p_now + p_expires - p_wall;
BEGIN
  IF p_uses IS NOT NULL AND EXISTS (SELECT 1 FROM sluice.max_waits) THEN
    SELECT least(latest, p_now + min(CASE WHEN own.limit_name IS NULL THEN every.max_wait ELSE own.max_wait END)) INTO latest
    FROM json_array_elements(p_uses::json) u
    LEFT JOIN sluice.max_waits every ON every.limit_name = u ->> 0 AND every.key IS NULL
    LEFT JOIN sluice.max_waits own ON own.limit_name = u ->> 0 AND own.key = u ->> 1;
  END IF;
  RETURN latest;
END $f$;

-- Jobs whose time has come join their lanes.
CREATE OR REPLACE FUNCTION sluice.promote(p_limit int) RETURNS int LANGUAGE plpgsql ${BY_INDEX} AS $f$
DECLARE now bigint; wall bigint; moved int; ready bigint[];
BEGIN
  now := sluice.now_us();
  wall := sluice.wall_us();
  IF NOT EXISTS (SELECT 1 FROM sluice.jobs WHERE state = 0 AND due <= wall) AND NOT EXISTS (SELECT 1 FROM sluice.jobs WHERE state = 4 AND due <= now) THEN
    RETURN 0;
  END IF;
  ready := ARRAY(SELECT seq FROM sluice.jobs WHERE state = 0 AND due <= wall ORDER BY due LIMIT p_limit FOR UPDATE SKIP LOCKED);
  ready := ready || ARRAY(SELECT seq FROM sluice.jobs WHERE state = 4 AND due <= now ORDER BY due LIMIT p_limit - cardinality(ready) FOR UPDATE SKIP LOCKED);
  WITH moved AS (
    UPDATE sluice.jobs j SET state = 1, since = now, due = sluice.latest_start(j.uses, j.expires, now, wall)
    WHERE j.seq = ANY (ready) AND j.state + 0 IN (0, 4)
    RETURNING j.queue, j.lane, j.uses, j.fair, j.due
  ), announced AS (
    INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
    SELECT queue, lane, min(uses), min(fair), bool_or(due IS NOT NULL) FROM moved WHERE uses IS NOT NULL GROUP BY queue, lane
  )
  SELECT count(*) INTO moved FROM moved;
  RETURN moved;
END $f$;

-- Creates the lanes that are not there yet, with their buckets. A bucket that was forgotten meanwhile is a new one.
-- Uses: [[limit, key, worker], …] of which the worker, where a bucket is one's own, may be left out.
CREATE OR REPLACE FUNCTION sluice.create_lanes(p_keys text[], p_queues text[], p_uses text[], p_fair text[], p_shares int[], p_bases text[], p_workers bigint[], p_now bigint) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE wanted bigint[]; needed int; 
BEGIN
  SELECT count(*) INTO needed FROM (SELECT DISTINCT e ->> 0, e ->> 1, coalesce(e ->> 2, '0') FROM unnest(p_uses) u, json_array_elements(u::json) e) s;
  LOOP
    INSERT INTO sluice.buckets (limit_name, key, worker, touched)
    SELECT DISTINCT (e ->> 0) COLLATE "C" AS l, (e ->> 1) COLLATE "C" AS k, coalesce((e ->> 2)::bigint, 0) AS w, p_now FROM unnest(p_uses) u, json_array_elements(u::json) e
    WHERE NOT EXISTS (SELECT 1 FROM sluice.buckets b WHERE b.limit_name = e ->> 0 AND b.key = e ->> 1 AND b.worker = coalesce((e ->> 2)::bigint, 0))
    ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING;
    SELECT coalesce(array_agg(DISTINCT b.id), '{}') INTO wanted FROM unnest(p_uses) u, json_array_elements(u::json) e, sluice.buckets b
    WHERE b.limit_name = e ->> 0 AND b.key = e ->> 1 AND b.worker = coalesce((e ->> 2)::bigint, 0);
    EXIT WHEN cardinality(wanted) = needed AND sluice.lock_buckets(wanted) = needed;
  END LOOP;
  WITH created AS (
    INSERT INTO sluice.lanes (key, queue, fair, share, base, worker, emptied, buckets)
    SELECT g.key, g.queue, g.fair, coalesce(g.share, 1), g.base, g.worker, p_now, ARRAY(
      SELECT b.id FROM json_array_elements(g.uses::json) WITH ORDINALITY e(use, n), sluice.buckets b
      WHERE b.limit_name = e.use ->> 0 AND b.key = e.use ->> 1 AND b.worker = coalesce((e.use ->> 2)::bigint, 0) ORDER BY e.n)
    FROM unnest(p_keys, p_queues, p_uses, p_fair, p_shares, p_bases, p_workers) g(key, queue, uses, fair, share, base, worker)
    ON CONFLICT DO NOTHING RETURNING buckets
  ), counted AS (SELECT b.id, count(*) AS n FROM created, unnest(created.buckets) b(id) GROUP BY b.id)
  UPDATE sluice.buckets b SET lanes = b.lanes + c.n FROM counted c WHERE b.id = c.id;
END $f$;

-- A connection remembers the snapshot of which all that has arrived for some queues is taken in. The server forgets it with the connection, as it must: a taking in that was not yet
-- durable when the server crashed is undone, and another server numbers its transactions anew. Callers may name any queues: there are 64 places, in which one set ousts another.
CREATE OR REPLACE FUNCTION sluice.taken_in_place(p_set text) RETURNS text LANGUAGE sql STABLE AS $f$
  SELECT 'sluice_taken_in.q' || (hashtext(p_set) & 63) $f$;

CREATE OR REPLACE FUNCTION sluice.taken_in_set(p_queues text[]) RETURNS text LANGUAGE sql STABLE AS $f$
  SELECT md5('sluice.' || array_to_string(p_queues, E'\\x01')) $f$;

CREATE OR REPLACE FUNCTION sluice.remember_taken_in(p_queues text[], p_seen pg_snapshot) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE v_set text := sluice.taken_in_set(p_queues);
BEGIN
  PERFORM set_config(sluice.taken_in_place(v_set), v_set || p_seen::text, false);
END $f$;

-- That snapshot; where none is remembered, one of nothing.
CREATE OR REPLACE FUNCTION sluice.taken_in(p_queues text[]) RETURNS pg_snapshot LANGUAGE plpgsql STABLE AS $f$
DECLARE v_set text := sluice.taken_in_set(p_queues); v_place text := current_setting(sluice.taken_in_place(v_set), true);
BEGIN
  RETURN CASE WHEN starts_with(v_place, v_set) THEN substr(v_place, length(v_set) + 1) ELSE '1:1:' END;
END $f$;

-- Whether anything has arrived that the snapshot remembered did not show.
CREATE OR REPLACE FUNCTION sluice.has_arrived(p_queues text[]) RETURNS boolean LANGUAGE plpgsql STABLE AS $f$
DECLARE v_seen pg_snapshot := sluice.taken_in(p_queues); v_later xid8 := pg_snapshot_xmax(v_seen); v_open xid8[] := ARRAY(SELECT pg_snapshot_xip(v_seen));
BEGIN
  RETURN EXISTS (SELECT 1 FROM sluice.arrivals WHERE queue = ANY (p_queues) AND xid >= v_later)
    OR EXISTS (SELECT 1 FROM sluice.arrivals WHERE queue = ANY (p_queues) AND xid = ANY (v_open));
END $f$;

-- The same, and where nothing has, this is remembered.
CREATE OR REPLACE FUNCTION sluice.look_arrivals(p_queues text[]) RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE v_arrived boolean; v_now pg_snapshot;
BEGIN
  SELECT sluice.has_arrived(p_queues), pg_current_snapshot() INTO v_arrived, v_now;
  IF NOT v_arrived THEN PERFORM sluice.remember_taken_in(p_queues, v_now); END IF;
  RETURN v_arrived;
END $f$;

-- Whether a lane has waiting jobs, and a claimer with these tasks can start none of them, nor any other worker: one index probe for each of its tasks. Of a lane
-- with many tasks this is not asked.
CREATE OR REPLACE FUNCTION sluice.is_unlisted(p_queue text, p_lane text, p_tasks text[], p_worker bigint, p_now bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $f$
DECLARE v_task text := ''; v_queue text := split_part(p_queue, E'\\x01', 1);
BEGIN
  FOR n IN 1 .. 16 LOOP
    SELECT j.task INTO v_task FROM sluice.jobs j WHERE j.lane = p_lane AND j.state = 1 AND j.task > v_task ORDER BY j.task LIMIT 1;
    IF NOT FOUND THEN RETURN n > 1; END IF;
    IF v_task = ANY (p_tasks) OR EXISTS (SELECT 1 FROM sluice.workers w WHERE w.alive_until > p_now AND w.id <> p_worker AND v_queue = ANY (w.queues) AND (w.tasks IS NULL OR v_task = ANY (w.tasks)))
    THEN RETURN false; END IF;
  END LOOP;
  RETURN false;
END $f$;

-- The same for lanes that are open, p_count of each queue at most: those of workers that have gone. Answers their kinds.
CREATE OR REPLACE FUNCTION sluice.park_unlisted(p_queues text[], p_tasks text[], p_known text, p_worker bigint, p_count int) RETURNS json LANGUAGE plpgsql ${BY_INDEX} AS $f$
DECLARE v_now bigint; v_ids bigint[]; v_unknown json;
BEGIN
  IF p_tasks IS NULL THEN RETURN NULL; END IF;
  PERFORM sluice.lock_queues(p_queues);
  v_now := sluice.now_us();
  v_ids := ARRAY(SELECT o.id FROM unnest(p_queues || ARRAY(SELECT sluice.own_queue(q, p_worker) FROM unnest(p_queues) q)) q, LATERAL (
    SELECT l.id, l.queue, coalesce(l.base, l.key) AS lane FROM sluice.lanes l WHERE l.queue = q AND l.state = 1 ORDER BY l.priority DESC, l.turn, l.head LIMIT p_count) o
    WHERE sluice.is_unlisted(o.queue, o.lane, p_tasks, p_worker, v_now));
  UPDATE sluice.lanes SET state = 4, passed = p_known, sieve = NULL WHERE id = ANY (v_ids);
  SELECT json_agg(u) INTO v_unknown FROM (SELECT DISTINCT split_part(l.queue, E'\\x01', 1) AS queue, h.task FROM sluice.lanes l, LATERAL (
    SELECT j.task FROM sluice.jobs j WHERE j.lane = coalesce(l.base, l.key) AND j.state = 1 ORDER BY j.priority DESC, j.seq LIMIT 1) h WHERE l.id = ANY (v_ids)) u;
  RETURN v_unknown;
END $f$;

-- Takes in what has arrived for these queues: lanes open that were empty, whose head was outranked or has gone. No newcomer stands before p_turn, and no
-- two at the same place, which would break into turns of several starts. A lane with nothing that a worker at work lists is parked at once: no decision has to look at it.
-- p_tasks, p_known: what the claimer lists, and the name of that set; null: it takes any. Answers the last turn that was given, and the kinds of what was parked.
CREATE OR REPLACE FUNCTION sluice.take_arrivals(p_queues text[], p_turn bigint, p_tasks text[], p_known text, p_worker bigint) RETURNS json LANGUAGE plpgsql ${BY_INDEX} AS $f$
DECLARE v_unknown json; v_now bigint; v_keys text[]; v_queues text[]; v_uses text[]; v_looks boolean[]; v_fair text[]; v_shares int[]; v_levels bigint[]; v_firsts bigint[]; woken bigint[];
  v_absent text[]; v_absent_queues text[]; v_absent_uses text[]; v_absent_fair text[]; v_absent_shares int[]; v_spread text[]; v_turn bigint := p_turn;
  v_seen pg_snapshot := sluice.taken_in(p_queues); v_later xid8 := pg_snapshot_xmax(v_seen); v_open xid8[] := ARRAY(SELECT pg_snapshot_xip(v_seen)); v_count int;
BEGIN
  IF NOT sluice.look_arrivals(p_queues) THEN RETURN json_build_array(v_turn, NULL); END IF;
  PERFORM sluice.lock_queues(p_queues);
  v_now := sluice.now_us();
  WITH gone AS (
    DELETE FROM sluice.arrivals WHERE id = ANY (ARRAY(
      (SELECT id FROM sluice.arrivals WHERE queue = ANY (p_queues) AND xid = ANY (v_open) LIMIT 1000)
      UNION ALL (SELECT id FROM sluice.arrivals WHERE queue = ANY (p_queues) AND xid >= v_later ORDER BY queue, xid, id LIMIT 1000) LIMIT 1000))
    RETURNING id, queue, lane, uses, fair, share, look, level, first
  ), each AS (SELECT lane, min(queue) AS queue, min(uses) AS uses, min(fair) AS fair, (array_agg(share ORDER BY id DESC) FILTER (WHERE share IS NOT NULL))[1] AS share, bool_or(look) AS look,
    CASE WHEN bool_and(level IS NOT NULL) THEN (array_agg(level ORDER BY level DESC, first))[1] END AS level, (array_agg(first ORDER BY level DESC, first))[1] AS first FROM gone GROUP BY lane)
  SELECT array_agg(e.lane), array_agg(e.queue), array_agg(e.uses), array_agg(e.fair), array_agg(e.share), array_agg(e.look), array_agg(e.level), array_agg(e.first),
    (SELECT count(*) FROM gone), pg_current_snapshot()
  INTO v_keys, v_queues, v_uses, v_fair, v_shares, v_looks, v_levels, v_firsts, v_count, v_seen FROM each e;
  IF v_count < 1000 THEN PERFORM sluice.remember_taken_in(p_queues, v_seen); END IF;
  IF v_keys IS NULL THEN RETURN json_build_array(v_turn, NULL); END IF;
  -- Never by their numbers: to reach one text of an array all before it are walked over.
  SELECT array_agg(a.key), array_agg(a.queue), array_agg(a.uses), array_agg(a.fair), array_agg(a.share) INTO v_absent, v_absent_queues, v_absent_uses, v_absent_fair, v_absent_shares
  FROM unnest(v_keys, v_queues, v_uses, v_fair, v_shares) a(key, queue, uses, fair, share) WHERE NOT EXISTS (SELECT 1 FROM sluice.lanes l WHERE l.key = a.key);
  IF v_absent IS NOT NULL THEN
    PERFORM sluice.create_lanes(v_absent, v_absent_queues, v_absent_uses, v_absent_fair, v_absent_shares, NULL, NULL, v_now);
  END IF;
  -- A lane has the share of the job that came last.
  UPDATE sluice.lanes l SET share = a.share FROM unnest(v_keys, v_shares) a(key, share) WHERE l.key = a.key AND l.share <> a.share;
  IF EXISTS (SELECT 1 FROM sluice.apart) THEN v_spread := sluice.spread_lanes(v_keys, v_uses, v_now); END IF;
  IF v_spread IS NOT NULL THEN
    -- What has come to a spread lane has come to each view of it.
    SELECT array_agg(coalesce(v.key, a.key)), array_agg(a.look AND v.key IS NULL), array_agg(a.level), array_agg(a.first) INTO v_keys, v_looks, v_levels, v_firsts
    FROM unnest(v_keys, v_looks, v_levels, v_firsts) a(key, look, level, first) LEFT JOIN sluice.lanes v ON v.base = a.key WHERE v.key IS NOT NULL OR a.key <> ALL (v_spread);
  END IF;
  v_turn := greatest(v_turn, v_now);
  WITH head AS MATERIALIZED (
    SELECT l.id, l.queue, l.state, l.bucket, l.deputy_of, h.priority, h.seq, h.task,
      CASE WHEN h.task <> ALL (p_tasks) THEN sluice.is_unlisted(l.queue, coalesce(l.base, l.key), p_tasks, p_worker, v_now) ELSE false END AS unlisted,
      -- Who came behind all that were sifted leaves them as they are; whatever else happened, they are sifted anew.
      CASE WHEN a.level < (l.sieve::json ->> 0)::bigint OR (a.level = (l.sieve::json ->> 0)::bigint AND a.first > (l.sieve::json ->> 1)::bigint) THEN l.sieve END AS sieve,
      CASE WHEN l.state = 0 THEN row_number() OVER (ORDER BY h.seq) END AS place
    FROM unnest(v_keys, v_looks, v_levels, v_firsts) a(key, look, level, first) JOIN sluice.lanes l ON l.key = a.key LEFT JOIN LATERAL
      (SELECT j.priority, j.seq, j.task FROM sluice.jobs j WHERE j.lane = coalesce(l.base, l.key) AND j.state = 1 ORDER BY j.priority DESC, j.seq LIMIT 1) h ON true
    WHERE CASE WHEN h.seq IS NULL THEN l.state <> 0 WHEN l.state = 0 THEN true
      ELSE (h.priority, h.seq) <> (l.priority, l.head) OR l.sieve IS NOT NULL OR (a.look AND l.state = 2) OR l.state = 4 END
  ), written AS (
    UPDATE sluice.lanes l SET
      state = CASE WHEN h.seq IS NULL THEN 0 WHEN h.unlisted THEN 4 ELSE 1 END, passed = CASE WHEN h.unlisted THEN p_known END, bucket = NULL, over = '', deputy_of = NULL,
      sieve = CASE WHEN h.seq IS NOT NULL AND l.state <> 0 AND NOT h.unlisted THEN h.sieve END,
      priority = coalesce(h.priority, l.priority), head = coalesce(h.seq, l.head),
      turn = CASE WHEN l.state = 0 THEN greatest(l.turn, v_turn + h.place) ELSE l.turn END, taken = CASE WHEN l.state = 0 OR h.seq IS NULL THEN 0 ELSE l.taken END,
      emptied = CASE WHEN h.seq IS NULL THEN v_now ELSE l.emptied END
    FROM head h WHERE l.id = h.id
  )
  SELECT (SELECT array_agg(DISTINCT b) FROM head h, unnest(ARRAY[h.bucket, h.deputy_of]) b WHERE b IS NOT NULL), v_turn + coalesce(max(place), 0),
    (SELECT json_agg(u) FROM (SELECT DISTINCT split_part(h.queue, E'\\x01', 1) AS queue, h.task FROM head h WHERE h.unlisted) u) INTO woken, v_turn, v_unknown FROM head;
  IF woken IS NOT NULL THEN
    PERFORM sluice.wake_lines(woken, v_now);
  END IF;
  RETURN json_build_array(v_turn, v_unknown);
END $f$;

-- As processes of 0.1.0 call it, which are at work while a newer one upgrades the store.
CREATE OR REPLACE FUNCTION sluice.take_arrivals(p_queues text[], p_turn bigint) RETURNS bigint LANGUAGE sql AS $f$
  SELECT (sluice.take_arrivals(p_queues, p_turn, NULL, NULL, 0) ->> 0)::bigint $f$;

-- Has the first of each line looked at again, if anybody waits there.
CREATE OR REPLACE FUNCTION sluice.wake_lines(p_ids bigint[], p_now bigint) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  PERFORM sluice.lock_buckets(p_ids);
  UPDATE sluice.buckets SET wake_at = least(wake_at, p_now) WHERE id = ANY (p_ids) AND wake_at > p_now;
END $f$;

-- Gives permits back and wakes the lines of their buckets; true if anybody waits there. An id that is named twice counts twice.
CREATE OR REPLACE FUNCTION sluice.return_permits(p_ids bigint[], p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE waits boolean;
BEGIN
  PERFORM sluice.lock_buckets(p_ids);
  WITH given AS (
    UPDATE sluice.buckets b SET active = greatest(b.active - r.n, 0), wake_at = CASE WHEN b.wake_at > p_now THEN p_now ELSE b.wake_at END
    FROM (SELECT id, count(*) AS n FROM unnest(p_ids) id GROUP BY id) r WHERE b.id = r.id RETURNING b.wake_at
  )
  SELECT coalesce(bool_or(wake_at IS NOT NULL), false) INTO waits FROM given;
  RETURN waits;
END $f$;
`
