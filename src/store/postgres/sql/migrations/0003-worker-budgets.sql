-- Budgets of each worker. A bucket is the fleet's (worker 0) or one worker's own. A view is one
-- worker's lane over the jobs of another lane, `base`. `apart` names the limits that are, or have
-- been, of that scope.
ALTER TABLE sluice.buckets ADD COLUMN worker bigint NOT NULL DEFAULT 0;
DROP INDEX sluice.buckets_name;
CREATE UNIQUE INDEX buckets_name ON sluice.buckets (limit_name, key, worker);
DROP INDEX sluice.buckets_wake;
CREATE INDEX buckets_wake ON sluice.buckets (worker, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX buckets_own ON sluice.buckets (worker) WHERE worker <> 0;
ALTER TABLE sluice.lanes ADD COLUMN base text COLLATE "C", ADD COLUMN worker bigint;
CREATE INDEX lanes_views ON sluice.lanes (base) WHERE base IS NOT NULL;
CREATE INDEX lanes_own ON sluice.lanes (worker) WHERE worker IS NOT NULL;
CREATE INDEX lanes_spread ON sluice.lanes (queue) WHERE state = 3;
CREATE TABLE sluice.apart (limit_name text COLLATE "C" PRIMARY KEY, apart boolean NOT NULL);
DROP FUNCTION IF EXISTS sluice.claim_next(bigint);
DROP FUNCTION IF EXISTS sluice.create_lanes(text[], text[], text[], text[], int[], bigint);
