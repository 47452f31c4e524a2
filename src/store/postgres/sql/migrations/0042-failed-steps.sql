-- The changes of flows have their error. A recovery says which step was lost.
CREATE OR REPLACE FUNCTION sluice.note_flow() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  INSERT INTO sluice.events (item, name, kind, was, state, jobs, created, error)
  VALUES (NEW.id, NEW.name, NEW.kind, OLD.state, NEW.state, NEW.total, NEW.created, NEW.error);
  RETURN NULL;
END $f$;
DROP FUNCTION IF EXISTS sluice.recover(bigint[], bigint[], text);
