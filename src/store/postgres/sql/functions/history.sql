-- The history of a job: its last {{kept_failures}} failures.

CREATE OR REPLACE FUNCTION sluice.with_failure(
  p_errors text[], p_error text, p_attempt int, p_now bigint
) RETURNS text[] LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE
    WHEN cardinality(p_errors) >= {{kept_failures}} THEN p_errors[2:]
    ELSE p_errors
  END || (left(p_error, -1) || ',"attempt":' || p_attempt || ',"atUs":' || p_now || '}') $f$;
