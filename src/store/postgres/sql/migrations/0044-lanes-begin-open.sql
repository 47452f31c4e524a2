-- A lane is made with its first job, at its turn: the function has further arguments.
DROP FUNCTION IF EXISTS sluice.create_lanes(
  text[], text[], text[], text[], int[], text[], bigint[], bigint
);
