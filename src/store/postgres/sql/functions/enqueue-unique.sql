-- Jobs of which some have unique keys, in order; each is an array as insert_jobs has its columns
-- but the last, then the threshold that its priority reaches, conflict, states, within, terms.
CREATE OR REPLACE FUNCTION sluice.enqueue_unique(
  p_jobs json, p_cancelled_us bigint
) RETURNS TABLE (kind text, id uuid) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE
  job json; held record; conflict text; now bigint; v_wall bigint; v_states int[]; within bigint;
BEGIN
  PERFORM sluice.lock_unique(
    ARRAY(SELECT j ->> 10 FROM json_array_elements(p_jobs) j WHERE j ->> 10 IS NOT NULL)
  );
  FOR job IN SELECT * FROM json_array_elements(p_jobs) LOOP
    now := sluice.now_us();
    v_wall := sluice.wall_us();
    conflict := job ->> 19;
    kind := 'created';
    id := (job ->> 0)::uuid;
    IF conflict IS NOT NULL THEN
      v_states := ARRAY(SELECT s::int FROM json_array_elements_text(job -> 20) s);
      within := (job ->> 21)::bigint;
      SELECT j.seq, j.id, j.state, j.queue, j.lane, j.uses, j.fair, j.priority,
        coalesce(j.asked, j.priority) AS asked
      INTO held
      FROM sluice.jobs j
      WHERE j.unique_key = job ->> 10
        AND (
          CASE
            WHEN j.state = {{job.available}} AND j.booked > now THEN {{job.scheduled}}
            ELSE j.state
          END
        ) = ANY (v_states)
        AND (within IS NULL OR j.created > now - within)
      ORDER BY j.seq DESC LIMIT 1;
      IF FOUND AND conflict IN ('ignore', 'reject') THEN
        kind := CASE conflict WHEN 'reject' THEN 'conflict' ELSE 'duplicate' END;
        id := held.id;
        RETURN NEXT;
        CONTINUE;
      END IF;
      -- What has started is never changed: a new job is made.
      IF FOUND THEN
        SELECT j.seq, j.id, j.state, j.queue, j.lane, j.uses, j.fair, j.priority,
          coalesce(j.asked, j.priority) AS asked
        INTO held
        FROM sluice.jobs j
        WHERE j.seq = held.seq
          AND j.state IN ({{job.scheduled}}, {{job.available}}, {{job.retryable}}, {{job.pending}})
        FOR UPDATE;
      END IF;
      IF FOUND THEN
        IF held.state = {{job.available}} AND held.uses IS NOT NULL THEN
          INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
          VALUES (held.queue, held.lane, held.uses, held.fair, false);
        END IF;
        IF conflict = 'update' THEN
          UPDATE sluice.jobs j
          SET queue = job ->> 2, lane = job ->> 3,
            priority = sluice.level_of(
              (job ->> 15)::int, held.priority, held.asked, (job ->> 18)::int
            ),
            asked = nullif(
              (job ->> 15)::int,
              sluice.level_of((job ->> 15)::int, held.priority, held.asked, (job ->> 18)::int)
            ),
            fair = job ->> 16, expires = (job ->> 7)::bigint, max_attempts = (job ->> 5)::int,
            booked = NULL, uses = job ->> 8,
            weights = job ->> 9, input = job ->> 11, extra = job ->> 12,
            bounded = (
              SELECT true FROM sluice.queues q WHERE q.name = job ->> 2 AND q.bounds IS NOT NULL
            ),
            lease = CASE WHEN job ->> 22 IS NULL THEN j.lease ELSE (job -> 22 ->> 0)::bigint END,
            timeout = CASE
              WHEN job ->> 22 IS NULL THEN j.timeout
              ELSE (job -> 22 ->> 1)::bigint
            END,
            dead_letter = CASE
              WHEN job ->> 22 IS NULL THEN j.dead_letter
              ELSE (job -> 22 ->> 2)::boolean
            END,
            due = CASE
              WHEN j.state = {{job.available}}
                THEN sluice.latest_start(job ->> 8, (job ->> 7)::bigint, now, v_wall)
              ELSE j.due
            END
          WHERE j.seq = held.seq;
          IF held.state = {{job.available}} AND job ->> 8 IS NOT NULL THEN
            INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look)
            VALUES (job ->> 2, job ->> 3, job ->> 8, job ->> 16, (job ->> 17)::int, true);
          END IF;
          kind := 'updated';
          id := held.id;
          RETURN NEXT;
          CONTINUE;
        END IF;
        UPDATE sluice.jobs j
        SET state = {{job.cancelled}}, finished = now, due = now + p_cancelled_us
        WHERE j.seq = held.seq;
      END IF;
    END IF;
    PERFORM sluice.insert_jobs(
      ARRAY[id], ARRAY[job ->> 1], ARRAY[job ->> 2], ARRAY[job ->> 3], ARRAY[(job ->> 4)::bigint],
      ARRAY[(job ->> 5)::int], ARRAY[(job ->> 6)::bigint], ARRAY[(job ->> 7)::bigint],
      ARRAY[job ->> 8], ARRAY[job ->> 9], ARRAY[job ->> 10], ARRAY[job ->> 11], ARRAY[job ->> 12],
      ARRAY[job ->> 13], ARRAY[(job ->> 14)::bigint],
      ARRAY[nullif((job ->> 15)::int, (job ->> 4)::bigint)::int], ARRAY[job ->> 16],
      ARRAY[(job ->> 17)::int], CASE WHEN job ->> 22 IS NOT NULL THEN ARRAY[job -> 22] END
    );
    RETURN NEXT;
  END LOOP;
END $f$;

-- As enqueue_unique, but all or none. SL004: the key of one is held and must not be; the message
-- says whose it is.
CREATE OR REPLACE FUNCTION sluice.enqueue_whole(
  p_jobs json, p_cancelled_us bigint
) RETURNS json LANGUAGE plpgsql AS $f$
DECLARE v_answers json; v_conflict json;
BEGIN
  SELECT json_agg(json_build_object('kind', e.kind, 'id', e.id) ORDER BY e.n) INTO v_answers
  FROM sluice.enqueue_unique(p_jobs, p_cancelled_us) WITH ORDINALITY e(kind, id, n);
  SELECT json_build_object('at', e.n - 1, 'why', e.answer) INTO v_conflict
  FROM json_array_elements(v_answers) WITH ORDINALITY e(answer, n)
  WHERE e.answer ->> 'kind' = 'conflict' ORDER BY e.n LIMIT 1;
  IF FOUND THEN RAISE EXCEPTION '%', v_conflict USING ERRCODE = 'SL004'; END IF;
  RETURN v_answers;
END $f$;
