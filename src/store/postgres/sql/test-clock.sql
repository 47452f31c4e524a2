-- Makes a schema use the clock of its callers, the engine's `clock` option: for tests.
CREATE OR REPLACE FUNCTION sluice.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT coalesce(
    nullif(current_setting('sluice_clock.now_us', true), '')::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  ) $f$;
CREATE OR REPLACE FUNCTION sluice.wall_us() RETURNS bigint LANGUAGE sql VOLATILE AS $f$
  SELECT coalesce(
    nullif(current_setting('sluice_clock.wall_us', true), '')::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  ) $f$;
