-- Both clocks are the server's one clock. They are functions of the schema, so that a test can
-- replace them in its own schema.

CREATE OR REPLACE FUNCTION sluice.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $f$;

CREATE OR REPLACE FUNCTION sluice.wall_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $f$;
