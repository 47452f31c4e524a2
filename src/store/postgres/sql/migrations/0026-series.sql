-- Counts over time, of each process and of all together, as compressed JSON.
CREATE TABLE sluice.series (
  step bigint NOT NULL,
  part text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  source bigint NOT NULL,
  data text NOT NULL,
  PRIMARY KEY (step, part, at, source)
);
CREATE INDEX series_age ON sluice.series (step, at);
