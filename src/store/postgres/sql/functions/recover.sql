-- The name of a job's step. A machine marks steps that it has waited for.
CREATE OR REPLACE FUNCTION sluice.step_name(p_flow bigint, p_step text) RETURNS text
LANGUAGE sql STABLE AS $f$
  SELECT CASE
    WHEN (SELECT f.kind FROM sluice.flows f WHERE f.seq = p_flow) = 'machine'
      THEN rtrim(p_step, '*')
    ELSE p_step
  END
$f$;

-- Takes back the jobs whose lease ran out, and those of dead workers.
CREATE OR REPLACE FUNCTION sluice.recover(p_dead bigint[], p_retention bigint[], p_error text)
RETURNS TABLE (
  r_id uuid, r_task text, r_queue text, r_input text, r_attempt int, r_state int, r_seq bigint,
  r_flows text, r_step text
) LANGUAGE plpgsql
{{by_order}} AS $f$
DECLARE
  v_now bigint; v_wall bigint; v_lost bigint[]; v_permits bigint[]; v_ended bigint[]; v_flows text;
BEGIN
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  v_lost := ARRAY(
    SELECT seq FROM sluice.jobs WHERE state = {{job.active}} AND due <= v_now ORDER BY due
    LIMIT 1000 FOR UPDATE SKIP LOCKED
  );
  IF cardinality(p_dead) > 0 THEN
    v_lost := v_lost || ARRAY(
      SELECT seq FROM sluice.jobs
      WHERE state = {{job.active}} AND due > v_now AND worker = ANY (p_dead) LIMIT 1000
      FOR UPDATE SKIP LOCKED
    );
  END IF;
  IF cardinality(v_lost) = 0 THEN RETURN; END IF;
  WITH back AS (
    UPDATE sluice.jobs j SET worker = NULL, since = v_now,
      state = CASE
        WHEN j.cancelling THEN {{job.cancelled}}
        WHEN j.attempt >= j.max_attempts THEN {{job.discarded}}
        ELSE {{job.available}}
      END,
      due = CASE
        WHEN j.cancelling THEN v_now + p_retention[{{retention.cancelled}}]
        WHEN j.attempt >= j.max_attempts THEN v_now + p_retention[{{retention.discarded}}]
        ELSE sluice.latest_start(j.uses, j.expires, v_now, v_wall)
      END,
      finished = CASE WHEN j.cancelling OR j.attempt >= j.max_attempts THEN v_now END,
      error = CASE
        WHEN j.attempt < j.max_attempts OR j.cancelling THEN j.error
        WHEN j.step IS NULL THEN p_error
        -- The error of a flow tells in which step it was lost.
        ELSE (
          p_error::jsonb || jsonb_build_object(
            'message', replace(
              p_error::jsonb ->> 'message', ' its lease.',
              ' its lease in the step ' || sluice.step_name(j.flow, j.step) || '.'
            ),
            'details', jsonb_build_object(
              'step', sluice.step_name(j.flow, j.step), 'attempt', j.attempt
            )
          )
        )::text
      END,
      errors = CASE
        WHEN j.cancelling THEN j.errors
        ELSE sluice.with_failure(j.errors, p_error, j.attempt, v_now)
      END
    WHERE j.seq = ANY (v_lost) AND j.state + 0 = {{job.active}}
    RETURNING j.seq, j.state, j.permits, j.queue, j.lane, j.uses, j.fair, j.due, j.flow
  ), announced AS (
    INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
    SELECT b.queue, b.lane, min(b.uses), min(b.fair), bool_or(b.due IS NOT NULL) FROM back b
    WHERE b.state = {{job.available}} AND b.uses IS NOT NULL
    GROUP BY b.queue, b.lane
  )
  SELECT (SELECT array_agg(p) FROM back, unnest(back.permits) p),
    array_agg(b.seq) FILTER (WHERE b.flow IS NOT NULL AND b.state <> {{job.available}})
  INTO v_permits, v_ended
  FROM back b;
  IF v_permits IS NOT NULL THEN PERFORM sluice.return_permits(v_permits, v_now); END IF;
  IF v_ended IS NOT NULL THEN v_flows := sluice.advance(v_ended, p_retention); END IF;
  RETURN QUERY
  SELECT j.id, j.task, j.queue, j.input, j.attempt, j.state::int, j.seq,
    CASE row_number() OVER (ORDER BY j.seq) WHEN 1 THEN v_flows END,
    sluice.step_name(j.flow, j.step)
  FROM sluice.jobs j WHERE j.seq = ANY (v_lost) ORDER BY j.seq;
END $f$;
