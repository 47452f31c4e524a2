-- Over how many stripes the lanes of a queue are spread. Claims of one file come one after the
-- other, so that nothing but the record depends on it.
ALTER TABLE queues ADD COLUMN stripes INTEGER NOT NULL DEFAULT 1;
