-- A claim reads as much of each group of a wait list as the last claims needed.
DROP FUNCTION IF EXISTS sluice.line_first(bigint, int, int, int, boolean);
DROP FUNCTION IF EXISTS sluice.claim_reach(
  text[], bigint[], bigint[], bigint[], bigint[], int, int, int, int, bigint[], int[], boolean[],
  int
);
