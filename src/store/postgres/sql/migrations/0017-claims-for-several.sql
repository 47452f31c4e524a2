-- A claim starts jobs for several remote workers, and answers what a worker needs to know of each.
DROP FUNCTION IF EXISTS sluice.start_jobs(bigint[], text[], bigint, bigint, bigint, boolean, uuid);
DROP FUNCTION IF EXISTS sluice.claim_open(
  text[], text[], int[], bigint, bigint, bigint, bigint, text[], boolean, text[], text, uuid
);
DROP FUNCTION IF EXISTS sluice.claim_write(
  bigint, bigint, bigint, bigint, json, json, json, json, json, boolean, uuid
);
