-- It returns the instants at which it stored the jobs.
DROP FUNCTION IF EXISTS sluice.insert_jobs(
  uuid[], text[], text[], text[], bigint[], int[], bigint[], bigint[], text[], text[], text[],
  text[], text[], text[], bigint[], int[], text[], int[], json[], bigint[], int[], text[], int[],
  int[]
);
