-- Both clocks are the server's one clock. They are functions of the schema, so that a test can give
-- its own schema a clock of its own.

CREATE OR REPLACE FUNCTION sluice.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $f$;

CREATE OR REPLACE FUNCTION sluice.wall_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $f$;
