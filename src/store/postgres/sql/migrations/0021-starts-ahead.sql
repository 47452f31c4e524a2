-- A claim starts jobs at instants of their own.
DROP FUNCTION IF EXISTS sluice.start_jobs(
  bigint[], text[], bigint, bigint, bigint, boolean, uuid, bigint[], uuid[]
);
