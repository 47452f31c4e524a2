-- The tables of flows.
DROP FUNCTION IF EXISTS sluice.settle(
  bigint[], int[], bigint[], int[], bigint[], text[], text[], int[], bigint
);
DROP FUNCTION IF EXISTS sluice.recover(bigint[], bigint, bigint, text);
DROP FUNCTION IF EXISTS sluice.start_jobs(bigint[], text[], bigint, bigint, bigint);
DROP FUNCTION IF EXISTS sluice.claim_open(
  text[], text[], int[], bigint, bigint, bigint, bigint, text[]
);
DROP FUNCTION IF EXISTS sluice.claim_write(
  bigint, bigint, bigint, bigint, json, json, json, json, json
);

-- A flow's jobs: node is the place among them, and waits the number that have yet to complete
-- before it. plan holds the data for its start: the headroom threshold that its priority reaches,
-- its start time, its delay and the share of its lane. Their due is empty once they have ended,
-- since they are kept as long as their flow. flows.bytes is the size of all results; flows.state is
-- the place in FLOW_STATES (jobs/flow.ts).
ALTER TABLE sluice.jobs ADD COLUMN flow bigint, ADD COLUMN node int, ADD COLUMN waits int,
ADD COLUMN plan text;
CREATE UNIQUE INDEX jobs_flow ON sluice.jobs (flow, node) WHERE flow IS NOT NULL;
CREATE TABLE sluice.flows (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id uuid NOT NULL,
  kind text COLLATE "C" NOT NULL,
  name text COLLATE "C",
  state smallint NOT NULL DEFAULT 0,
  total int NOT NULL,
  edges int NOT NULL,
  completed int NOT NULL DEFAULT 0,
  discarded int NOT NULL DEFAULT 0,
  cancelled int NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  created bigint NOT NULL,
  finished bigint,
  due bigint,
  extra text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX flows_id ON sluice.flows (id);
CREATE INDEX flows_due ON sluice.flows (due) WHERE due IS NOT NULL;
-- By the numbers of the jobs: with a flow and a place in it, the planner might use the flow alone.
CREATE TABLE sluice.flow_edges (
  before bigint NOT NULL, behind bigint NOT NULL, PRIMARY KEY (before, behind)
);
CREATE INDEX flow_edges_back ON sluice.flow_edges (behind);
