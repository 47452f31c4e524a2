-- Stores jobs of which some have unique keys, in order: each an array (NEW_JOB, sql/fields.ts).
CREATE OR REPLACE FUNCTION sluice.enqueue_unique(
  p_jobs json, p_cancelled_us bigint
) RETURNS TABLE (kind text, id uuid) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE job record; held record; now bigint; v_wall bigint; v_states int[];
BEGIN
  PERFORM sluice.lock_unique(
    ARRAY(
      SELECT j ->> {{new_job.unique_key}} FROM json_array_elements(p_jobs) j
      WHERE j ->> {{new_job.unique_key}} IS NOT NULL
    )
  );
  FOR job IN
    SELECT (j ->> {{new_job.id}})::uuid AS id, j ->> {{new_job.task}} AS task,
      j ->> {{new_job.queue}} AS queue, j ->> {{new_job.lane}} AS lane,
      (j ->> {{new_job.level}})::bigint AS level,
      (j ->> {{new_job.max_attempts}})::int AS max_attempts,
      (j ->> {{new_job.run_at}})::bigint AS run_at, (j ->> {{new_job.expires}})::bigint AS expires,
      j ->> {{new_job.uses}} AS uses, j ->> {{new_job.weights}} AS weights,
      j ->> {{new_job.unique_key}} AS unique_key, j ->> {{new_job.input}} AS input,
      j ->> {{new_job.extra}} AS extra, j ->> {{new_job.schedule}} AS schedule,
      (j ->> {{new_job.occurs}})::bigint AS occurs, (j ->> {{new_job.priority}})::int AS priority,
      j ->> {{new_job.fair}} AS fair, (j ->> {{new_job.share}})::int AS share,
      (j ->> {{new_job.reached}})::int AS reached, j ->> {{new_job.conflict}} AS conflict,
      j -> {{new_job.states}} AS states, (j ->> {{new_job.within}})::bigint AS within,
      (j ->> {{new_job.terms}})::json AS terms
    FROM json_array_elements(p_jobs) j
  LOOP
    now := sluice.now_us();
    v_wall := sluice.wall_us();
    kind := 'created';
    id := job.id;
    IF job.conflict IS NOT NULL THEN
      v_states := ARRAY(SELECT s::int FROM json_array_elements_text(job.states) s);
      SELECT j.seq, j.id, j.state, j.queue, j.lane, j.uses, j.fair, j.priority,
        coalesce(j.asked, j.priority) AS asked
      INTO held
      FROM sluice.jobs j
      WHERE j.unique_key = job.unique_key
        AND (
          CASE
            WHEN j.state = {{job.available}} AND j.booked > now THEN {{job.scheduled}}
            ELSE j.state
          END
        ) = ANY (v_states)
        AND (job.within IS NULL OR j.created > now - job.within)
      ORDER BY j.seq DESC LIMIT 1;
      IF FOUND AND job.conflict IN ('ignore', 'reject') THEN
        kind := CASE job.conflict WHEN 'reject' THEN 'conflict' ELSE 'duplicate' END;
        id := held.id;
        RETURN NEXT;
        CONTINUE;
      END IF;
      -- A started job is never changed: the call stores a new job.
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
        IF job.conflict = 'update' THEN
          UPDATE sluice.jobs j
          SET queue = job.queue, lane = job.lane,
            priority = sluice.level_of(job.priority, held.priority, held.asked, job.reached),
            asked = nullif(
              job.priority,
              sluice.level_of(job.priority, held.priority, held.asked, job.reached)
            ),
            fair = job.fair, expires = job.expires, max_attempts = job.max_attempts,
            booked = NULL, uses = job.uses,
            weights = job.weights, input = job.input, extra = job.extra,
            bounded = (
              SELECT true FROM sluice.queues q WHERE q.name = job.queue AND q.bounds IS NOT NULL
            ),
            lease = CASE
              WHEN job.terms IS NULL THEN j.lease
              ELSE (job.terms ->> {{terms.lease}})::bigint
            END,
            timeout = CASE
              WHEN job.terms IS NULL THEN j.timeout
              ELSE (job.terms ->> {{terms.timeout}})::bigint
            END,
            dead_letter = CASE
              WHEN job.terms IS NULL THEN j.dead_letter
              ELSE (job.terms ->> {{terms.dead_letter}})::boolean
            END,
            due = CASE
              WHEN j.state = {{job.available}}
                THEN sluice.latest_start(job.uses, job.expires, now, v_wall)
              ELSE j.due
            END
          WHERE j.seq = held.seq;
          IF job.uses IS NOT NULL THEN
            INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look)
            VALUES (
              job.queue, job.lane, job.uses, job.fair, job.share,
              held.state = {{job.available}}
            );
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
      ARRAY[id], ARRAY[job.task], ARRAY[job.queue], ARRAY[job.lane], ARRAY[job.level],
      ARRAY[job.max_attempts], ARRAY[job.run_at], ARRAY[job.expires], ARRAY[job.uses],
      ARRAY[job.weights], ARRAY[job.unique_key], ARRAY[job.input], ARRAY[job.extra],
      ARRAY[job.schedule], ARRAY[job.occurs], ARRAY[nullif(job.priority, job.level)::int],
      ARRAY[job.fair], ARRAY[job.share], CASE WHEN job.terms IS NOT NULL THEN ARRAY[job.terms] END
    );
    RETURN NEXT;
  END LOOP;
END $f$;

-- As enqueue_unique, but all or none. SL004: another job holds a key whose rule refuses duplicates;
-- the message names the job.
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
