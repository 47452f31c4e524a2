-- The enqueue for triggers and other languages: one job, in the caller's transaction.

-- The name of a job's lane, as the engine computes it: JSON text as JavaScript writes it, hashed if
-- it is long.
CREATE OR REPLACE FUNCTION sluice.lane_key(
  p_queue text, p_uses text
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $f$
DECLARE v_text text;
BEGIN
  v_text := '[' || to_json(p_queue)::text || CASE
    WHEN p_uses IS NULL THEN ''
    ELSE ',' || substr(p_uses, 2, length(p_uses) - 2)
  END || ']';
  IF length(v_text) + (
    SELECT count(*) FROM regexp_matches(v_text, '[\U00010000-\U0010FFFF]', 'g')
  ) <= 40 THEN
    RETURN v_text;
  END IF;
  RETURN translate(rtrim(encode(sha256(convert_to(v_text, 'UTF8')), 'base64'), '='), '+/', '-_');
END $f$;

-- A partition key in its stored form, as in policy/limits/partition-key.ts. The server itself
-- refuses texts that it cannot store.
CREATE OR REPLACE FUNCTION sluice.kept_key(p_key text) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE
    WHEN octet_length(p_key) > 1024
      THEN 'sha256:' || encode(sha256(convert_to(p_key, 'UTF8')), 'hex')
    ELSE p_key
  END $f$;

-- UUID version 7: its first 48 bits are the time in ms.
CREATE OR REPLACE FUNCTION sluice.new_id() RETURNS uuid LANGUAGE plpgsql VOLATILE AS $f$
DECLARE v_bytes bytea := uuid_send(gen_random_uuid());
BEGIN
  v_bytes := overlay(
    v_bytes PLACING substring(int8send(sluice.wall_us() / 1000) FROM 3) FROM 1 FOR 6
  );
  RETURN encode(set_byte(v_bytes, 6, (get_byte(v_bytes, 6) & 15) | 112), 'hex')::uuid;
END $f$;

-- Names the fault of an entry of `limits`; null: it has none. A number as a key is the text that
-- JavaScript makes of it: of a whole number, its digits.
CREATE OR REPLACE FUNCTION sluice.use_fault(p_use json) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $f$
BEGIN
  RETURN CASE
    WHEN json_typeof(p_use) <> 'object' THEN 'Expected an object with limit, key and weight'
    WHEN EXISTS (
      SELECT 1 FROM json_object_keys(p_use) k WHERE k NOT IN ('limit', 'key', 'weight')
    ) THEN 'Expected no members but limit, key and weight'
    WHEN (
      json_typeof(p_use -> 'limit') = 'string' AND length(p_use ->> 'limit') BETWEEN 1 AND 255
    ) IS NOT TRUE THEN 'Expected limit to be a text of 1 to 255 characters'
    WHEN CASE json_typeof(p_use -> 'key')
      WHEN 'string' THEN p_use ->> 'key' = ''
      WHEN 'number'
        THEN coalesce(
          abs(substring(p_use ->> 'key' FROM '^(?:0|-?[1-9][0-9]{0,15})$')::bigint),
          {{max_exact}} + 1
        ) > {{max_exact}}
      ELSE p_use -> 'key' IS NOT NULL
    END THEN 'Expected key to be a text or a whole number, or no key at all'
    WHEN p_use -> 'weight' IS NOT NULL AND (
      json_typeof(p_use -> 'weight') = 'number' AND substring(
        p_use ->> 'weight' FROM '^([1-9][0-9]{0,9})(?:[.]0+)?$'
      )::bigint <= {{max_units}}
    ) IS NOT TRUE THEN 'Expected weight to be a whole number from 1 to {{max_units}}'
  END;
END $f$;

-- The first number in a JSON text that JavaScript cannot keep, as in base/exact-numbers.ts; null:
-- it keeps all. Beyond 2^53 a number has to read back as the same digits.
CREATE OR REPLACE FUNCTION sluice.inexact_number(p_json text) RETURNS text LANGUAGE plpgsql
IMMUTABLE SET extra_float_digits = 1 AS $f$
DECLARE v_number text; v_value float8;
BEGIN
  IF p_json !~ '[0-9]{16}|[0-9][eE][+-]?[0-9]' THEN RETURN NULL; END IF;
  BEGIN
    FOR v_number IN
      SELECT m[1]
      FROM regexp_matches(
        regexp_replace(p_json, '"(?:[^"\\]|\\.)*"', '', 'g'), '[-+.0-9eE]*[0-9]', 'g'
      ) m
    LOOP
      v_value := v_number::float8;
      IF abs(v_value) > {{max_exact}}
        AND v_number::numeric <> v_value::text::numeric
      THEN RETURN v_number; END IF;
    END LOOP;
  EXCEPTION WHEN numeric_value_out_of_range THEN RETURN v_number;
  END;
  RETURN NULL;
END $f$;

-- limits: [{"limit": "crm", "key": "acme", "weight": 1}, …]; key and weight are optional. They are
-- the job's only limits. Without them the job waits until an engine that lists the task resolves
-- its limits.
CREATE OR REPLACE FUNCTION sluice.enqueue(
  task text, input json DEFAULT 'null', queue text DEFAULT 'default', limits json DEFAULT NULL,
  priority int DEFAULT 0, max_attempts int DEFAULT 3, run_at timestamptz DEFAULT NULL,
  expires_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql AS $f$
#variable_conflict use_column
DECLARE
  v_uses text; v_weights text; v_id uuid; v_job json; v_run_at bigint; v_expires bigint;
  v_fault text;
BEGIN
  v_fault := CASE
    WHEN (
      length(enqueue.task) <= 255
        AND enqueue.task ~ '^[a-z][a-z0-9_-]*([.][a-z][a-z0-9_-]*)*$'
    ) IS NOT TRUE
      THEN format(
        'task is invalid: %L. Expected lower case words with dots between them',
        left(enqueue.task, 100)
      )
    WHEN (enqueue.queue ~ '^[a-z0-9][a-z0-9.-]{0,127}$') IS NOT TRUE
      THEN format(
        'queue is invalid: %L. Expected 1 to 128 lower case letters, digits, dots and hyphens',
        left(enqueue.queue, 100)
      )
    WHEN (enqueue.priority BETWEEN -100 AND 100) IS NOT TRUE
      THEN format('priority is invalid: %L. Expected -100 to 100', enqueue.priority)
    WHEN (enqueue.max_attempts BETWEEN 1 AND {{max_attempts}}) IS NOT TRUE
      THEN format(
        'max_attempts is invalid: %L. Expected 1 (no retry) to {{max_attempts}}',
        enqueue.max_attempts
      )
    WHEN enqueue.run_at >= '{{end_of_time}}' OR enqueue.expires_at >= '{{end_of_time}}'
      THEN 'run_at and expires_at must be before 2200-01-01'
    WHEN json_typeof(enqueue.limits) <> 'array'
      THEN format(
        'limits is invalid: %s. Expected a list such as [{"limit":"crm","key":"acme"}]',
        left(enqueue.limits::text, 100)
      )
    ELSE coalesce(
      (
        SELECT format('limits has an invalid entry: %s. %s', left(u::text, 100), f.fault)
        FROM json_array_elements(enqueue.limits) u, sluice.use_fault(u) f(fault)
        WHERE f.fault IS NOT NULL LIMIT 1
      ),
      (
        SELECT format('limits names %s twice with the same key', to_json(u ->> 'limit'))
        FROM json_array_elements(enqueue.limits) u
        GROUP BY u ->> 'limit', sluice.kept_key(coalesce(u ->> 'key', '')) HAVING count(*) > 1
        LIMIT 1
      ),
      (
        SELECT format(
          'input is invalid: %s cannot be kept exactly. Expected a text, or a whole number '
          'up to {{max_exact}}', left(n, 64)
        )
        FROM sluice.inexact_number(enqueue.input::text) n WHERE n IS NOT NULL
      )
    )
  END;
  IF v_fault IS NOT NULL THEN
    RAISE EXCEPTION 'sluice.enqueue: %.', v_fault USING ERRCODE = '22023';
  END IF;
  SELECT '[' || string_agg(
    '[' || to_json(l)::text || ',' || to_json(k)::text || ']', ',' ORDER BY l, k
  ) || ']',
    CASE WHEN bool_or(w <> 1) THEN '[' || string_agg(w::text, ',' ORDER BY l, k) || ']' END
  INTO v_uses, v_weights
  FROM (
    SELECT (u ->> 'limit') COLLATE "C" AS l,
      sluice.kept_key(coalesce(u ->> 'key', '')) COLLATE "C" AS k,
      coalesce((u ->> 'weight')::numeric::bigint, 1) AS w
    FROM json_array_elements(enqueue.limits) u
  ) s;
  v_id := sluice.new_id();
  v_run_at := (
    extract(
      epoch
      FROM CASE WHEN enqueue.run_at IS NOT NULL THEN greatest(enqueue.run_at, to_timestamp(0)) END
    ) * 1000000
  )::bigint;
  v_expires := (
    extract(
      epoch
      FROM CASE
        WHEN enqueue.expires_at IS NOT NULL THEN greatest(enqueue.expires_at, to_timestamp(0))
      END
    ) * 1000000
  )::bigint;
  v_job := json_build_array(v_id, enqueue.task, enqueue.queue,
    CASE
      WHEN enqueue.limits IS NULL THEN sluice.unresolved_lane(enqueue.queue, enqueue.task)
      ELSE sluice.lane_key(enqueue.queue, v_uses)
    END,
    enqueue.priority, enqueue.max_attempts, v_run_at, v_expires,
    v_uses, v_weights, enqueue.unique_key, coalesce(enqueue.input, 'null')::text, NULL, NULL, NULL,
    enqueue.priority, NULL, NULL, NULL,
    CASE WHEN enqueue.unique_key IS NOT NULL THEN 'ignore' END, json_build_array(0, 1, 2, 4, 5),
    NULL);
  SELECT e.id INTO v_id FROM sluice.enqueue_unique(json_build_array(v_job), 0) e;
  PERFORM pg_notify('sluice', 'sql work ' || rtrim('sluice.', '.'));
  RETURN v_id;
END $f$;
