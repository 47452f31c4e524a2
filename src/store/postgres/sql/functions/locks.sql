-- Locks by name. Each function takes its locks in the order of their numbers or ids, so that no two
-- callers wait for each other.

-- Locks whole queues, with all their stripes, or the stripes that are named. Queues of one stripe
-- come first: a claim that holds them may wait for a stripe.
CREATE OR REPLACE FUNCTION sluice.lock_queues(p_queues text[]) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE number int; v_names text[] := sluice.stripes(p_queues); v_again text[];
BEGIN
  LOOP
    FOR number IN
      SELECT hashtext('sluice.queue' || q) FROM unnest(v_names) q
      GROUP BY 1 ORDER BY bool_and(strpos(q, E'\x02') > 0), 1
    LOOP
      PERFORM pg_advisory_xact_lock(hashtext('sluice.'), number);
    END LOOP;
    -- The number of stripes may have changed before it had the first lock.
    v_again := sluice.stripes(p_queues);
    EXIT WHEN v_again <@ v_names;
    v_names := v_again;
  END LOOP;
END $f$;

CREATE OR REPLACE FUNCTION sluice.lock_buckets(
  p_ids bigint[]
) RETURNS int LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE found int;
BEGIN
  WITH locked AS (SELECT id FROM sluice.buckets WHERE id = ANY (p_ids) ORDER BY id FOR UPDATE)
  SELECT count(*) INTO found FROM locked;
  RETURN found;
END $f$;

-- Callers with several keys lock them in the order of their numbers. 25000: a caller's transaction
-- whose snapshot is older than the locks would not see the jobs that have these keys by now.
CREATE OR REPLACE FUNCTION sluice.lock_unique(p_keys text[]) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE number int;
BEGIN
  IF cardinality(p_keys) > 0 AND current_setting('transaction_isolation') NOT LIKE 'read %' THEN
    RAISE EXCEPTION 'a unique key needs a transaction of READ COMMITTED, and this one is %',
      upper(current_setting('transaction_isolation')) USING ERRCODE = '25000';
  END IF;
  FOR number IN SELECT DISTINCT hashtext(k) FROM unnest(p_keys) k ORDER BY 1 LOOP
    PERFORM pg_advisory_xact_lock(hashtext('sluice.unique'), number);
  END LOOP;
END $f$;

-- Locks the bounds of bounded queues: pushes to one run one after the other. In the order of the
-- locks' own numbers, after unique keys.
CREATE OR REPLACE FUNCTION sluice.lock_bounds(
  p_queues text[]
) RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE number int; v_some boolean := false;
BEGIN
  FOR number IN
    SELECT DISTINCT hashtext(q.name) FROM sluice.queues q
    WHERE q.bounds IS NOT NULL AND q.name = ANY (p_queues) ORDER BY 1
  LOOP
    PERFORM pg_advisory_xact_lock(hashtext('sluice.bounds'), number);
    v_some := true;
  END LOOP;
  RETURN v_some;
END $f$;
