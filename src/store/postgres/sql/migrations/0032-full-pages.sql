-- A job's state is in its indexes, so no update of it can stay in its page: room that is left there
-- for one only makes the table larger.
ALTER TABLE sluice.jobs SET (fillfactor = 100);
