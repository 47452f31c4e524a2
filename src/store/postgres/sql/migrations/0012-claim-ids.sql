-- Names the remote claim that started a job: if the claim's answer was lost, its jobs are given
-- back. A settlement names the start of its run. Processes of an earlier version call the same
-- functions without either.
ALTER TABLE sluice.jobs ADD COLUMN claim uuid;
DROP FUNCTION IF EXISTS sluice.start_jobs(bigint[], text[], bigint, bigint, bigint, boolean);
DROP FUNCTION IF EXISTS sluice.claim_open(
  text[], text[], int[], bigint, bigint, bigint, bigint, text[], boolean, text[], text
);
DROP FUNCTION IF EXISTS sluice.claim_write(
  bigint, bigint, bigint, bigint, json, json, json, json, json, boolean
);
DROP FUNCTION IF EXISTS sluice.settle(
  bigint[], int[], bigint[], int[], bigint[], text[], text[], int[], bigint[]
);
