-- A settlement says whether jobs of workflow flows have ended, jobs may be stored as those of a
-- flow, and a run of a workflow flow gets its step.
DROP FUNCTION IF EXISTS sluice.settle(
  bigint[], int[], bigint[], int[], bigint[], text[], text[], int[], bigint[], bigint[]
);
DROP FUNCTION IF EXISTS sluice.insert_jobs(
  uuid[], text[], text[], text[], bigint[], int[], bigint[], bigint[], text[], text[], text[],
  text[], text[], text[], bigint[], int[], text[], int[], json[]
);
DROP FUNCTION IF EXISTS sluice.flow_runs(bigint[]);
