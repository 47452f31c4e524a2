-- The level of a job that replaces another: it keeps the steps by which that has aged
-- (policy/admission/ageing.ts has the maths).
CREATE OR REPLACE FUNCTION sluice.level_of(
  p_priority int, p_level bigint, p_before bigint, p_reached int
) RETURNS bigint LANGUAGE sql IMMUTABLE AS $f$
  SELECT p_priority - (
    ((p_before - p_level) % 1099511627776) + 1099511627776
  ) % 1099511627776 + CASE
    WHEN p_reached IS NULL THEN 0
    ELSE 1099511627776 * (p_reached + 101)
  END $f$;

-- The level of a job that may start at this instant (policy/admission/ageing.ts has the maths). No
-- ageing: no caller has ever set a pace.
CREATE OR REPLACE FUNCTION sluice.level_at(
  p_ageing json, p_priority bigint, p_reached int, p_at bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE WHEN p_ageing IS NULL THEN p_priority ELSE p_priority - (p_ageing ->> 'steps')::bigint
    - coalesce(
      greatest(
        0,
        floor((p_at - (p_ageing ->> 'sinceUs')::bigint)::numeric / (p_ageing ->> 'everyUs')::bigint)
      )::bigint,
      0
    )
    + CASE WHEN p_reached IS NULL THEN 0 ELSE 1099511627776 * (p_reached + 101) END END $f$;

-- The level of a lane's head, also of one that waits within its guarantee
-- (policy/admission/guaranteed.ts: levelOfHead).
CREATE OR REPLACE FUNCTION sluice.lane_level(
  p_priority bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE WHEN p_priority > {{guaranteed_lift}} / 2
    THEN p_priority - {{guaranteed_lift}} ELSE p_priority END $f$;

-- SL003: the caller computed levels with another pace of ageing.
CREATE OR REPLACE FUNCTION sluice.check_ageing(
  p_ageing text
) RETURNS void LANGUAGE plpgsql STABLE AS $f$
BEGIN
  IF (SELECT value FROM sluice.store WHERE name = 'ageing') IS DISTINCT FROM p_ageing THEN
    RAISE EXCEPTION 'the pace has changed' USING ERRCODE = 'SL003';
  END IF;
END $f$;
