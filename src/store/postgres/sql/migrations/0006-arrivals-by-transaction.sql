-- Each arrival names the transaction that brought it, so that a claim does not read again what it
-- has taken in. While an old snapshot is open, deleted rows cannot be vacuumed, and a claim would
-- step over each of them (sql/taken-in.sql).
ALTER TABLE sluice.arrivals ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
DROP INDEX sluice.arrivals_queue;
CREATE INDEX arrivals_queue ON sluice.arrivals (queue, xid, id);
DROP FUNCTION IF EXISTS sluice.claim_reach(text[], bigint[], bigint[], bigint[], int, int, int);
