-- No instant is from 2200 on (base/instant.ts): an earlier version stored later ones, which cannot
-- be read. They move to the last one allowed.
UPDATE jobs SET due = {{end_of_time_us}} WHERE due > {{end_of_time_us}};
UPDATE jobs SET expires = {{end_of_time_us}} WHERE expires > {{end_of_time_us}};
UPDATE jobs SET due = 0 WHERE due < 0;
UPDATE jobs SET expires = 0 WHERE expires < 0;
