-- The scan cursor of a lane (policy/admission/scan-cursor.ts). jobs.booked is when a job that a
-- limit rescheduled is expected to start, on the store's clock. It keeps its place in the lane, and
-- reads as scheduled until then.
ALTER TABLE lanes ADD COLUMN sieve TEXT;
ALTER TABLE jobs ADD COLUMN booked INTEGER;
