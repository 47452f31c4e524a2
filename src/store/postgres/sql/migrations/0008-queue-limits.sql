-- The limits that code gives to a queue as a whole: every claim reads them, in any process.
ALTER TABLE sluice.queues ADD COLUMN limits text, ADD COLUMN limits_version bigint;
