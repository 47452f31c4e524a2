-- Flows with keys are started in one statement, and a signal is stored in one.
DROP FUNCTION IF EXISTS sluice.start_workflows(
  uuid[], text[], text[], int[], text[], text[], text[], text[], text[], int[], int[], text[],
  uuid[], text[], text[], text[], bigint[], int[], bigint[], bigint[], text[], text[], text[],
  text[], text[], text[], bigint[], int[], text[], int[], json[]
);
