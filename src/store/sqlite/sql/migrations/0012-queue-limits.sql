-- The limits that code gives to a queue as a whole: every claim reads them, whichever process makes
-- it.
ALTER TABLE queues ADD COLUMN limits TEXT;
ALTER TABLE queues ADD COLUMN limits_version INTEGER;
