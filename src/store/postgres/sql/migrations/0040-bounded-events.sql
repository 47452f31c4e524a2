-- A reader that lives deletes events itself, and is marked if it has not read them. Without one,
-- until a worker prunes, writers keep 20,000. They take no lock that another one waits for.
CREATE FUNCTION sluice.bound_events() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM sluice.event_readers WHERE until >= sluice.now_us()) THEN
    DELETE FROM sluice.events WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM sluice.events WHERE id <= NEW.id - 20000 FOR UPDATE SKIP LOCKED));
  END IF;
  RETURN NULL;
END $f$;
REVOKE EXECUTE ON FUNCTION sluice.bound_events() FROM PUBLIC;
CREATE TRIGGER events_bound AFTER INSERT ON sluice.events FOR EACH ROW
  WHEN (NEW.id % 1000 = 0) EXECUTE FUNCTION sluice.bound_events();
