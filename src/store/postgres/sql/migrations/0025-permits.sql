-- Permits of code without jobs, each with the end of its lease, and reservations, which hold none.
-- `buckets` is a list of ids as JSON text.
CREATE TABLE sluice.permits (
  id text COLLATE "C" PRIMARY KEY,
  buckets text NOT NULL,
  until bigint NOT NULL,
  reservation text
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX permits_until ON sluice.permits (until);
