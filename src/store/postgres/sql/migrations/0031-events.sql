-- Events for subscribers in other processes (store/shared/event-log.ts). Triggers write them, so
-- that older processes are heard too. They are enabled while a reader lives: without one nothing is
-- written. Rows become visible in another order than that of their ids, since transactions commit
-- in any order. So each names its transaction, and a reader keeps the snapshot of its last read.
-- `was` is null for a new row. `ready` is when the job began to wait for this run. A flow has a
-- kind and no queue. `failed`: a run added an error to the job. The triggers write with the rights
-- of their owner, since a role that may enqueue need not know of this table.
CREATE TABLE sluice.events (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  id bigint GENERATED ALWAYS AS IDENTITY,
  item uuid NOT NULL,
  name text COLLATE "C",
  queue text COLLATE "C",
  kind text COLLATE "C",
  was smallint,
  state smallint NOT NULL,
  attempt int NOT NULL DEFAULT 0,
  jobs int,
  created bigint NOT NULL,
  ready bigint,
  since bigint,
  started bigint,
  due bigint,
  failed boolean NOT NULL DEFAULT false,
  error text,
  PRIMARY KEY (xid, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0);

-- `position` is what the reader has read: a snapshot. `until` is the end of its lease. `behind`:
-- events that it had not read were deleted.
CREATE TABLE sluice.event_readers (
  id uuid PRIMARY KEY, position text NOT NULL, until bigint NOT NULL,
  behind boolean NOT NULL DEFAULT false
);

CREATE FUNCTION sluice.note_job() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE v_failed boolean := OLD.state IS NOT NULL AND NEW.errors IS DISTINCT FROM OLD.errors;
BEGIN
  INSERT INTO sluice.events (
    item, name, queue, was, state, attempt, created, ready, since, started, due, failed, error
  ) VALUES (
    NEW.id, NEW.task, NEW.queue, OLD.state, NEW.state,
    CASE WHEN OLD.state = {{job.active}} THEN OLD.attempt ELSE NEW.attempt END, NEW.created,
    coalesce(OLD.since, NEW.since), NEW.since, NEW.started, NEW.due, v_failed,
    CASE WHEN v_failed OR NEW.state = {{job.discarded}} THEN NEW.error END
  );
  RETURN NULL;
END $f$;
CREATE FUNCTION sluice.note_flow() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  INSERT INTO sluice.events (item, name, kind, was, state, jobs, created)
  VALUES (NEW.id, NEW.name, NEW.kind, OLD.state, NEW.state, NEW.total, NEW.created);
  RETURN NULL;
END $f$;

CREATE TRIGGER job_stored AFTER INSERT ON sluice.jobs
  FOR EACH ROW EXECUTE FUNCTION sluice.note_job();
CREATE TRIGGER job_moved AFTER UPDATE OF state ON sluice.jobs FOR EACH ROW
  WHEN (
    OLD.state <> NEW.state AND (
      OLD.state = {{job.active}}
      OR NEW.state IN (
        {{job.active}}, {{job.completed}}, {{job.cancelled}}, {{job.discarded}}
      )
    )
  )
  EXECUTE FUNCTION sluice.note_job();
CREATE TRIGGER flow_stored AFTER INSERT ON sluice.flows
  FOR EACH ROW EXECUTE FUNCTION sluice.note_flow();
CREATE TRIGGER flow_moved AFTER UPDATE OF state ON sluice.flows FOR EACH ROW
  WHEN (OLD.state <> NEW.state AND NEW.state <> {{flow.running}})
  EXECUTE FUNCTION sluice.note_flow();
ALTER TABLE sluice.jobs DISABLE TRIGGER job_stored, DISABLE TRIGGER job_moved;
ALTER TABLE sluice.flows DISABLE TRIGGER flow_stored, DISABLE TRIGGER flow_moved;
