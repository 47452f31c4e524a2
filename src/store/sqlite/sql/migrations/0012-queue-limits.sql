-- The limits that code gives to a queue as a whole: every claim reads them, in any process.
ALTER TABLE queues ADD COLUMN limits TEXT;
ALTER TABLE queues ADD COLUMN limits_version INTEGER;
