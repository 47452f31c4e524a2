-- A flow's jobs: `node` is the place among them, and `waits` the number that have yet to complete
-- before it. `plan` is the data of its lane for its start. Their `due` is empty once they have
-- ended, since they are kept as long as their flow. `bytes` is the size of all results.
CREATE TABLE flows (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT,
  state INTEGER NOT NULL DEFAULT 0,
  total INTEGER NOT NULL,
  edges INTEGER NOT NULL,
  completed INTEGER NOT NULL DEFAULT 0,
  discarded INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,
  created INTEGER NOT NULL,
  finished INTEGER,
  due INTEGER,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX flows_id ON flows (id);
CREATE INDEX flows_due ON flows (due) WHERE due IS NOT NULL;
CREATE TABLE flow_edges (
  flow INTEGER NOT NULL,
  before INTEGER NOT NULL,
  node INTEGER NOT NULL,
  PRIMARY KEY (flow, before, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_edges_back ON flow_edges (flow, node);
ALTER TABLE jobs ADD COLUMN flow INTEGER;
ALTER TABLE jobs ADD COLUMN node INTEGER;
ALTER TABLE jobs ADD COLUMN waits INTEGER;
ALTER TABLE jobs ADD COLUMN plan TEXT;
CREATE UNIQUE INDEX jobs_flow ON jobs (flow, node) WHERE flow IS NOT NULL;
