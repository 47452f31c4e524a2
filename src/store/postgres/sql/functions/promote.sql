-- The latest start of an available job: the end of its longest wait or its expiry, whichever is
-- first.
CREATE OR REPLACE FUNCTION sluice.latest_start(
  p_uses text, p_expires bigint, p_now bigint, p_wall bigint
) RETURNS bigint LANGUAGE plpgsql STABLE AS $f$
DECLARE latest bigint := p_now + p_expires - p_wall;
BEGIN
  IF p_uses IS NOT NULL AND EXISTS (SELECT 1 FROM sluice.max_waits) THEN
    SELECT least(
      latest,
      p_now + min(CASE WHEN own.limit_name IS NULL THEN every.max_wait ELSE own.max_wait END)
    )
    INTO latest
    FROM json_array_elements(p_uses::json) u
    LEFT JOIN LATERAL (
      SELECT max_wait FROM sluice.max_waits
      WHERE limit_name = u ->> {{use.limit}} AND key IS NULL {{apart}}
    ) every ON true
    LEFT JOIN LATERAL (
      SELECT limit_name, max_wait FROM sluice.max_waits
      WHERE limit_name = u ->> {{use.limit}} AND key = u ->> {{use.key}} {{apart}}
    ) own ON true;
  END IF;
  RETURN latest;
END $f$;

-- Moves due jobs to their lanes.
CREATE OR REPLACE FUNCTION sluice.promote(
  p_limit int
) RETURNS int LANGUAGE plpgsql {{by_order}} AS $f$
DECLARE now bigint; wall bigint; moved int; ready bigint[];
BEGIN
  now := sluice.now_us();
  wall := sluice.wall_us();
  IF NOT EXISTS (SELECT 1 FROM sluice.jobs WHERE state = {{job.scheduled}} AND due <= wall)
    AND NOT EXISTS (SELECT 1 FROM sluice.jobs WHERE state = {{job.retryable}} AND due <= now) THEN
    RETURN 0;
  END IF;
  ready := ARRAY(
    SELECT seq FROM sluice.jobs WHERE state = {{job.scheduled}} AND due <= wall ORDER BY due
    LIMIT p_limit FOR UPDATE SKIP LOCKED
  );
  ready := ready || ARRAY(
    SELECT seq FROM sluice.jobs WHERE state = {{job.retryable}} AND due <= now ORDER BY due
    LIMIT p_limit - cardinality(ready) FOR UPDATE SKIP LOCKED
  );
  WITH moved AS (
    UPDATE sluice.jobs j
    SET state = {{job.available}}, since = now,
      due = sluice.latest_start(j.uses, j.expires, now, wall)
    WHERE j.seq = ANY (ready) AND j.state + 0 IN ({{job.scheduled}}, {{job.retryable}})
    RETURNING j.queue, j.lane, j.uses, j.fair, j.due
  ), announced AS (
    INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
    SELECT queue, lane, min(uses), min(fair), bool_or(due IS NOT NULL) FROM moved
    WHERE uses IS NOT NULL
    GROUP BY queue, lane
  )
  SELECT count(*) INTO moved FROM moved;
  RETURN moved;
END $f$;
