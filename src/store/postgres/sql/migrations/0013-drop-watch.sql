-- Lanes that wait in another bucket's wait list and need one that drops, with what their first jobs
-- need of it (policy/admission/drop-watch.ts). Rows of lanes that wait no more are skipped until
-- the lane is written again.
CREATE TABLE sluice.drop_watch (
  lane bigint NOT NULL REFERENCES sluice.lanes (id) ON DELETE CASCADE,
  bucket bigint NOT NULL,
  need bigint NOT NULL,
  PRIMARY KEY (lane, bucket)
);
CREATE INDEX drop_watch_need ON sluice.drop_watch (bucket, need DESC, lane);
