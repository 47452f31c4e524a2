-- While a schedule is paused, next_at is null and paused says when its next occurrence was due, on
-- the same clock.
ALTER TABLE sluice.schedules ADD COLUMN IF NOT EXISTS paused bigint;
-- It takes the limits that the claimer cannot serve now.
DROP FUNCTION IF EXISTS sluice.due_lists(bigint, bigint, text[], int);
