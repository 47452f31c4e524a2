-- While a schedule is paused, next_at is null and paused says when its next occurrence was due, on
-- the same clock.
ALTER TABLE sluice.schedules ADD COLUMN IF NOT EXISTS paused bigint;
