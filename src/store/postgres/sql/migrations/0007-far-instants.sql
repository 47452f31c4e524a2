-- No instant is from 2200 on (base/instant.ts): an earlier version stored later ones, and they move
-- to the last one allowed. sluice.enqueue refuses such an instant too.
UPDATE sluice.jobs
SET due = {{end_of_time_us}}
WHERE due > {{end_of_time_us}} AND state IN (0, 1, 4);
UPDATE sluice.jobs SET expires = {{end_of_time_us}} WHERE expires > {{end_of_time_us}};
