-- The arrivals that a connection has taken in. Once it has taken in all that a snapshot showed, it
-- only reads rows of transactions that this snapshot did not show: those then in progress, and
-- later ones. So a row may be committed at any time, and no row is read twice.

-- Per set of queues, a connection remembers the snapshot whose arrivals it has taken in. The server
-- drops it with the connection, and has to: a crash undoes commits that were not durable, and
-- another server numbers its transactions differently. Callers may name any queues, so there are 64
-- places, in which one set replaces another.
CREATE OR REPLACE FUNCTION sluice.taken_in_place(p_set text) RETURNS text LANGUAGE sql STABLE AS $f$
  SELECT 'sluice_taken_in.q' || (hashtext(p_set) & 63) $f$;

CREATE OR REPLACE FUNCTION sluice.taken_in_set(
  p_queues text[]
) RETURNS text LANGUAGE sql STABLE AS $f$
  SELECT md5('sluice.' || array_to_string(p_queues, E'\x01')) $f$;

CREATE OR REPLACE FUNCTION sluice.remember_taken_in(
  p_queues text[], p_seen pg_snapshot
) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE v_set text := sluice.taken_in_set(p_queues);
BEGIN
  PERFORM set_config(sluice.taken_in_place(v_set), v_set || p_seen::text, false);
END $f$;

-- The remembered snapshot; an empty one if there is none.
CREATE OR REPLACE FUNCTION sluice.taken_in(
  p_queues text[]
) RETURNS pg_snapshot LANGUAGE plpgsql STABLE AS $f$
DECLARE
  v_set text := sluice.taken_in_set(p_queues);
  v_place text := current_setting(sluice.taken_in_place(v_set), true);
BEGIN
  RETURN CASE
    WHEN starts_with(v_place, v_set) THEN substr(v_place, length(v_set) + 1)
    ELSE '1:1:'
  END;
END $f$;

-- Whether anything has arrived that the remembered snapshot did not show.
CREATE OR REPLACE FUNCTION sluice.has_arrived(
  p_queues text[]
) RETURNS boolean LANGUAGE plpgsql STABLE AS $f$
DECLARE
  v_seen pg_snapshot := sluice.taken_in(p_queues); v_later xid8 := pg_snapshot_xmax(v_seen);
  v_open xid8[] := ARRAY(SELECT pg_snapshot_xip(v_seen)); v_shared text[];
BEGIN
  v_shared := sluice.shared_queues(p_queues);
  IF v_shared <> p_queues THEN
    RETURN EXISTS (
      SELECT 1 FROM sluice.arrivals
      WHERE queue = ANY (v_shared) AND (xid >= v_later OR xid = ANY (v_open))
        AND sluice.lane_queue(queue, lane) = ANY (p_queues)
    );
  END IF;
  RETURN EXISTS (SELECT 1 FROM sluice.arrivals WHERE queue = ANY (p_queues) AND xid >= v_later)
    OR EXISTS (SELECT 1 FROM sluice.arrivals WHERE queue = ANY (p_queues) AND xid = ANY (v_open));
END $f$;

-- The same; without arrivals, it remembers the present snapshot.
CREATE OR REPLACE FUNCTION sluice.look_arrivals(
  p_queues text[]
) RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE v_arrived boolean; v_now pg_snapshot;
BEGIN
  -- Where no job has ever had a limit, the table has no page.
  IF pg_relation_size('sluice.arrivals'::regclass) = 0 THEN RETURN false; END IF;
  SELECT sluice.has_arrived(p_queues), pg_current_snapshot() INTO v_arrived, v_now;
  IF NOT v_arrived THEN PERFORM sluice.remember_taken_in(p_queues, v_now); END IF;
  RETURN v_arrived;
END $f$;
