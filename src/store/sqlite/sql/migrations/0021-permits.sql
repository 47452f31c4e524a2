-- Permits of code without jobs, each with the end of its lease, and reservations, which hold none.
-- `buckets` is a list of ids as JSON text.
CREATE TABLE permits (
  id TEXT PRIMARY KEY,
  buckets TEXT NOT NULL,
  until INTEGER NOT NULL,
  reservation TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX permits_until ON permits (until);
