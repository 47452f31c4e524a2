-- Beside its definitions, what changed a limit: numbered together with them. A key of NULL means
-- all keys, a change of NULL the end.
CREATE TABLE overrides (
  name TEXT NOT NULL,
  revision INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT,
  change TEXT,
  since INTEGER NOT NULL,
  until INTEGER,
  author TEXT,
  reason TEXT,
  PRIMARY KEY (name, revision)
) STRICT, WITHOUT ROWID;
