-- A claim reads a short wait list of many groups in one order.
DROP FUNCTION IF EXISTS sluice.line_first(bigint, int);
DROP FUNCTION IF EXISTS sluice.claim_reach(
  text[], bigint[], bigint[], bigint[], bigint[], int, int, int
);
