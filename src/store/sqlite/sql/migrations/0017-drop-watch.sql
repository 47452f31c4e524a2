-- Lanes that wait in another bucket's wait list and need one that drops, with what their first jobs
-- need of it (policy/admission/drop-watch.ts). Rows of lanes that wait no more are skipped until
-- the lane is written again.
CREATE TABLE drop_watch (
  lane INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  need INTEGER NOT NULL,
  PRIMARY KEY (lane, bucket)
) STRICT, WITHOUT ROWID;
CREATE INDEX drop_watch_need ON drop_watch (bucket, need DESC, lane);
