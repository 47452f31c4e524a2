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

-- limits: [{"limit": "crm", "key": "acme", "weight": 1}, …]; key and weight are optional. They are
-- the job's only limits. Without them the job waits until an engine that lists the task resolves
-- its limits.
CREATE OR REPLACE FUNCTION sluice.enqueue(
  task text, input json DEFAULT 'null', queue text DEFAULT 'default', limits json DEFAULT NULL,
  priority int DEFAULT 0, max_attempts int DEFAULT 3, run_at timestamptz DEFAULT NULL,
  expires_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql AS $f$
#variable_conflict use_column
DECLARE v_uses text; v_weights text; v_id uuid; v_job json; v_run_at bigint; v_expires bigint;
BEGIN
  IF enqueue.task IS NULL OR length(enqueue.task) = 0 THEN
    RAISE EXCEPTION 'sluice.enqueue: a job needs the name of its task' USING ERRCODE = '22023';
  END IF;
  IF enqueue.queue !~ '^[a-z0-9][a-z0-9.-]{0,127}$' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format(
      'sluice.enqueue: %s is no queue name; '
      'write at most 128 lower case letters, digits, dots and hyphens', enqueue.queue
    );
  END IF;
  IF enqueue.priority NOT BETWEEN -100 AND 100 THEN
    RAISE EXCEPTION 'sluice.enqueue: the priority is %, give -100 to 100', enqueue.priority
    USING ERRCODE = '22023';
  END IF;
  IF EXISTS (
    SELECT 1 FROM json_array_elements(enqueue.limits) u
    WHERE coalesce(u ->> 'limit', '') = '' OR length(u ->> 'limit') > 255
      OR coalesce((u ->> 'weight')::bigint, 1) < 1
  )
    OR (
      SELECT count(*) <> count(DISTINCT (u ->> 'limit', sluice.kept_key(coalesce(u ->> 'key', ''))))
      FROM json_array_elements(enqueue.limits) u
    ) THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
      'sluice.enqueue: each of limits names a limit in at most 255 characters, '
      'none twice with the same key, with a weight of at least 1';
  END IF;
  IF enqueue.run_at >= '{{end_of_time}}' OR enqueue.expires_at >= '{{end_of_time}}' THEN
    RAISE EXCEPTION 'sluice.enqueue: run_at and expires_at must be before 2200-01-01'
    USING ERRCODE = '22023';
  END IF;
  SELECT '[' || string_agg(
    '[' || to_json(l)::text || ',' || to_json(k)::text || ']', ',' ORDER BY l, k
  ) || ']',
    CASE WHEN bool_or(w <> 1) THEN '[' || string_agg(w::text, ',' ORDER BY l, k) || ']' END
  INTO v_uses, v_weights
  FROM (
    SELECT (u ->> 'limit') COLLATE "C" AS l,
      sluice.kept_key(coalesce(u ->> 'key', '')) COLLATE "C" AS k,
      coalesce((u ->> 'weight')::bigint, 1) AS w
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
