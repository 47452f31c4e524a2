-- The limits that code gives to a queue as a whole: every claim reads them, whichever process makes
-- it.
ALTER TABLE sluice.queues ADD COLUMN limits text, ADD COLUMN limits_version bigint;
