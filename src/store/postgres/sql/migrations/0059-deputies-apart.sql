-- A claim reads the deputies of a wait list apart from the lanes that it may examine.
DROP FUNCTION IF EXISTS sluice.claim_reach(
  text[], bigint[], bigint[], bigint[], bigint[], int, int, int, int, bigint[], int[], boolean[],
  json[], int
);
