-- No claim looks up a lane outside wait lists by its buckets.
DROP INDEX sluice.lanes_buckets;
CREATE INDEX lanes_buckets ON sluice.lanes (buckets) WHERE state <> 0;
DROP FUNCTION IF EXISTS sluice.claim_write(
  bigint, bigint, bigint, bigint, json, json, json, json, json
);
