-- A job that may start at once is stored as started.
DROP FUNCTION IF EXISTS sluice.insert_jobs(
  uuid[], text[], text[], text[], bigint[], int[], bigint[], bigint[], text[], text[], text[],
  text[], text[], text[], bigint[], int[], text[], int[], json[], bigint[], int[], text[], int[],
  int[]
);
DROP FUNCTION IF EXISTS sluice.start_workflows(
  uuid[], text[], text[], int[], text[], text[], text[], text[], text[], text[], int[], int[],
  text[], uuid[], text[], text[], text[], bigint[], int[], bigint[], bigint[], text[], text[],
  text[], text[], text[], text[], bigint[], int[], text[], int[], json[]
);
DROP FUNCTION IF EXISTS sluice.claim_open(
  text[], text[], int[], bigint, bigint, bigint, bigint, text[], boolean, text[], text, uuid,
  bigint[], uuid[]
);
