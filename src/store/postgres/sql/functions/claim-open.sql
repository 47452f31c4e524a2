-- A claim of jobs without limits, if there is nothing to decide. It takes one round trip. It locks
-- only the jobs, and takes one shared lock for each queue, for which a pause waits. If the claim
-- needs a decision it returns no row, and the caller reads and decides. An open or due lane, an
-- arrival, a due job, or a paused or limited queue needs one.

-- Starts waiting jobs for a worker. p_permits, in the same order: the buckets whose permits each
-- holds, as an array's text. p_workers and p_claims, in this order too: the worker and the claim of
-- each, if workers claim together. r_run then has the columns of a start. p_starts: the instants of
-- starts that are granted ahead, null: p_now.
CREATE
  OR REPLACE FUNCTION sluice.start_jobs(
    p_seqs bigint[], p_permits text[], p_worker bigint, p_lease_us bigint, p_now bigint,
    p_outside boolean, p_claim uuid, p_workers bigint[] DEFAULT NULL, p_claims uuid[] DEFAULT NULL,
    p_starts bigint[] DEFAULT NULL
  )
RETURNS TABLE (
  r_seq bigint, r_id uuid, r_task text, r_queue text, r_priority int, r_input text, r_attempt int,
  r_max_attempts int, r_pushed_back int, r_created bigint, r_extra text, r_schedule text,
  r_occurs bigint, r_state int, r_since bigint, r_flow bigint, r_run text
) LANGUAGE plpgsql
{{by_list}} AS $f$
BEGIN
  -- An occurrence of a schedule has to start before the end of its series; a retry of it need not.
  -- In a remote run, a job's own lease overrides the claim's.
  RETURN QUERY
  UPDATE sluice.jobs j
  SET state = {{job.active}}, attempt = j.attempt + 1, booked = NULL,
    started = coalesce(g.start, p_now),
    worker = coalesce(g.worker, p_worker), claim = coalesce(g.claim, p_claim),
    due = coalesce(g.start, p_now)
      + CASE WHEN p_outside THEN coalesce(j.lease, p_lease_us) ELSE p_lease_us END,
    leased = CASE WHEN p_outside THEN coalesce(j.lease, p_lease_us) ELSE j.leased END,
    ends = CASE WHEN p_outside THEN p_now + j.timeout END,
    permits = g.permits::bigint[], expires = CASE WHEN j.schedule IS NULL THEN j.expires END
  FROM unnest(p_seqs, p_permits, p_workers, p_claims, p_starts)
    g(seq, permits, worker, claim, start)
  WHERE j.seq = ANY (p_seqs) AND j.seq = g.seq AND j.state + 0 = {{job.available}}
  RETURNING j.seq, j.id, j.task, j.queue, coalesce(j.asked, j.priority)::int, j.input, j.attempt,
    j.max_attempts, j.pushed_back, j.created, j.extra, j.schedule, j.occurs, j.state::int, j.since,
    j.flow,
    CASE WHEN p_workers IS NOT NULL THEN json_build_array(
      j.seq, j.due, j.expires, j.lease, j.leased, j.timeout, j.error,
      '[' || array_to_string(j.errors, ',') || ']', j.progress, j.claim
    )::text END;
END $f$;

-- Looks whether a claim needs a decision. Null: it does. Otherwise the clocks, the next due times,
-- and whether a job waits in one of p_lanes that has slots. p_limits: the number of the last change
-- of limits that the caller knows; p_next_end: the end of an override that it knows. The caller has
-- the locks of the queues.
CREATE OR REPLACE FUNCTION sluice.look_open(
  p_queues text[], p_lanes text[], p_slots int[], p_worker bigint, p_limits bigint,
  p_next_end bigint, p_unreadable text[], p_known text, p_several boolean
) RETURNS json LANGUAGE plpgsql {{by_order}} AS $f$
DECLARE
  v_now bigint := sluice.now_us(); v_wall bigint := sluice.wall_us();
  v_next json; v_fire json := sluice.claim_fire(p_unreadable);
  v_all text[] := sluice.stripes(p_queues);
BEGIN
  IF EXISTS (
    SELECT 1 FROM sluice.queues WHERE name = ANY (p_queues) AND (paused OR limit_name IS NOT NULL)
  ) THEN
    RETURN NULL;
  END IF;
  IF EXISTS (SELECT 1 FROM sluice.apart) THEN
    IF p_several THEN RETURN NULL; END IF;
    v_all := v_all || ARRAY(SELECT sluice.own_queue(q, p_worker) FROM unnest(v_all) q);
    IF EXISTS (SELECT 1 FROM sluice.buckets WHERE worker = p_worker AND wake_at <= v_now) THEN
      RETURN NULL;
    END IF;
  END IF;
  IF cardinality(sluice.parked_lanes(v_all, p_known, 1)) > 0 THEN RETURN NULL; END IF;
  IF EXISTS (SELECT 1 FROM sluice.buckets WHERE worker = 0 AND wake_at <= v_now) THEN
    RETURN NULL;
  END IF;
  -- After that look: a list that another claim decides between the two would be due in neither.
  v_next := sluice.claim_next(v_now, p_worker);
  IF sluice.look_arrivals(p_queues)
    OR EXISTS (SELECT 1 FROM sluice.lanes WHERE queue = ANY (v_all) AND state = {{lane.open}})
    OR coalesce((SELECT value::bigint FROM sluice.store WHERE name = 'limits'), 0) <> p_limits
    OR p_next_end <= v_now
    OR (v_next ->> {{next.scheduled}})::bigint <= v_wall
    OR (v_next ->> {{next.retryable}})::bigint <= v_now
    OR (v_next ->> {{next.available}})::bigint < v_now
    OR (v_fire ->> {{fire.store}})::bigint <= v_now
    OR (v_fire ->> {{fire.wall}})::bigint <= v_wall
    OR v_fire ->> {{fire.released}} IS NOT NULL
  THEN RETURN NULL; END IF;
  RETURN json_build_object(
    'now', v_now, 'wall', v_wall, 'fire', v_fire, 'next', v_next, 'unresolved',
    sluice.claim_unresolved(p_queues), 'waiting',
    EXISTS (
      SELECT 1 FROM unnest(p_lanes, p_slots) n(lane, slots),
        LATERAL (
          SELECT 1 FROM sluice.jobs j WHERE j.lane = n.lane AND j.state = {{job.available}} LIMIT 1
        ) j
      WHERE n.slots > 0
    )
  );
END $f$;

-- The first row describes the claim itself, as JSON in the column of an input; without it nothing
-- was done. p_look: what look_open has found in this transaction; null: it is still to be asked.
CREATE OR REPLACE FUNCTION sluice.claim_open(
  p_queues text[], p_lanes text[], p_slots int[], p_worker bigint, p_lease_us bigint,
  p_limits bigint, p_next_end bigint, p_unreadable text[], p_outside boolean DEFAULT false,
  p_tasks text[] DEFAULT NULL, p_known text DEFAULT NULL, p_claim uuid DEFAULT NULL,
  p_workers bigint[] DEFAULT NULL, p_claims uuid[] DEFAULT NULL, p_look json DEFAULT NULL
) RETURNS TABLE (r_seq bigint, r_id uuid, r_task text, r_queue text, r_priority int, r_input text,
r_attempt int, r_max_attempts int, r_pushed_back int, r_created bigint,
  r_extra text, r_schedule text, r_occurs bigint, r_state int, r_since bigint,
  r_flow bigint, r_run text) LANGUAGE plpgsql
{{by_order}} AS $f$
DECLARE
  v_now bigint; v_seqs bigint[] := '{}'; v_had bigint[]; v_held boolean := false;
  v_unlisted text[]; v_seen int; v_wanted int; v_unknown json[] := '{}';
BEGIN
  IF p_look IS NULL THEN
    PERFORM pg_advisory_xact_lock_shared(hashtext('sluice.held'), hashtext(q))
    FROM unnest(p_queues) q;
    p_look := sluice.look_open(
      p_queues, NULL, NULL, p_worker, p_limits, p_next_end, p_unreadable, p_known,
      cardinality(p_workers) > 1
    );
    IF p_look IS NULL THEN RETURN; END IF;
  END IF;
  v_now := p_look ->> 'now';
  FOR n IN 1 .. cardinality(p_lanes) LOOP
    CONTINUE WHEN p_slots[n] = 0;
    v_seen := p_slots[n];
    v_unlisted := '{}';
    IF p_tasks IS NOT NULL THEN
      -- Each search passes all dead entries of the index, so an empty lane costs only this one.
      SELECT count(*),
        coalesce(array_agg(DISTINCT f.task) FILTER (WHERE f.task <> ALL (p_tasks)), '{}')
      INTO v_seen, v_unlisted
      FROM (
        SELECT task FROM sluice.jobs WHERE lane = p_lanes[n] AND state = {{job.available}}
        ORDER BY priority DESC, seq LIMIT p_slots[n]
      ) f;
      CONTINUE WHEN v_seen = 0;
    END IF;
    IF cardinality(v_unlisted) > 0 THEN
      -- The first job of each listed task, behind any number of others.
      v_had := ARRAY(SELECT h.seq FROM unnest(p_tasks) t(task), LATERAL (
        SELECT seq, priority FROM sluice.jobs
        WHERE hashtext(lane) = hashtext(p_lanes[n]) AND lane || '' = p_lanes[n]
          AND state = {{job.available}} AND hashtext(task) = hashtext(t.task) AND task = t.task
        ORDER BY priority DESC, seq
        LIMIT p_slots[n]) h ORDER BY h.priority DESC, h.seq LIMIT p_slots[n]);
      v_wanted := cardinality(v_had);
      v_had := ARRAY(
        SELECT seq FROM sluice.jobs WHERE seq = ANY (v_had) AND state + 0 = {{job.available}}
        ORDER BY priority DESC, seq FOR UPDATE SKIP LOCKED
      );
      v_seqs := v_seqs || v_had;
      v_held := v_held OR cardinality(v_had) < v_wanted;
      v_unknown := v_unknown || ARRAY(
        SELECT json_build_array(p_queues[n], s) FROM unnest(v_unlisted) s
        WHERE NOT EXISTS (
          SELECT 1 FROM sluice.workers w
          WHERE w.alive_until > v_now AND w.id <> p_worker AND p_queues[n] = ANY (w.queues)
            AND (w.tasks IS NULL OR s = ANY (w.tasks))
        )
      );
      CONTINUE;
    END IF;
    v_had := ARRAY(
      SELECT seq FROM sluice.jobs
      WHERE lane = p_lanes[n] AND state = {{job.available}}
        AND (p_tasks IS NULL OR task = ANY (p_tasks))
      ORDER BY priority DESC, seq LIMIT p_slots[n] FOR UPDATE SKIP LOCKED
    );
    v_seqs := v_seqs || v_had;
    v_held := v_held
      OR (
        cardinality(v_had) < v_seen
          AND (
            SELECT seq FROM sluice.jobs
            WHERE lane = p_lanes[n] AND state = {{job.available}} AND seq <> ALL (v_had)
              AND (p_tasks IS NULL OR task = ANY (p_tasks))
            ORDER BY priority DESC, seq LIMIT 1
          ) IS NOT NULL
      );
  END LOOP;
  -- One object with all that both have found.
  r_input := left(p_look::text, -1) || ', ' || substr(
    json_build_object('held', v_held, 'unknown', to_json(v_unknown), 'order', v_seqs)::text, 2
  );
  RETURN NEXT;
  IF cardinality(v_seqs) > 0 THEN
    RETURN QUERY
    SELECT *
    FROM sluice.start_jobs(
      v_seqs, NULL, p_worker, p_lease_us, v_now, p_outside, p_claim, p_workers, p_claims
    );
  END IF;
END $f$;
