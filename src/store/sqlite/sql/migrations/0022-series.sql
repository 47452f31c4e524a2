-- Counts over time, of each process and of all together, as compressed JSON.
CREATE TABLE series (
  step INTEGER NOT NULL,
  part TEXT NOT NULL,
  at INTEGER NOT NULL,
  source INTEGER NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (step, part, at, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX series_age ON series (step, at);
