-- Makes the next claim evaluate the head of each wait list, if any lane waits there.
CREATE OR REPLACE FUNCTION sluice.wake_lines(
  p_ids bigint[], p_now bigint
) RETURNS void LANGUAGE plpgsql {{by_index}} AS $f$
BEGIN
  PERFORM sluice.lock_buckets(p_ids);
  UPDATE sluice.buckets
  SET wake_at = least(wake_at, p_now)
  WHERE id = ANY (p_ids) AND wake_at + 0 > p_now;
END $f$;

-- Returns permits and wakes the wait lists of their buckets; true if any lane waits there. An id
-- that occurs twice counts twice.
CREATE OR REPLACE FUNCTION sluice.return_permits(
  p_ids bigint[], p_now bigint
) RETURNS boolean LANGUAGE plpgsql {{by_list}} AS $f$
DECLARE waits boolean;
BEGIN
  PERFORM sluice.lock_buckets(p_ids);
  WITH given AS (
    UPDATE sluice.buckets b
    SET active = greatest(b.active - r.n, 0),
      wake_at = CASE WHEN b.wake_at > p_now THEN p_now ELSE b.wake_at END
    FROM (SELECT id, count(*) AS n FROM unnest(p_ids) id GROUP BY id) r
    WHERE b.id = ANY (p_ids) AND b.id = r.id
    RETURNING b.wake_at
  )
  SELECT coalesce(bool_or(wake_at IS NOT NULL), false) INTO waits FROM given;
  RETURN waits;
END $f$;
