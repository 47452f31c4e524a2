-- A claim writes most lanes and buckets by columns. The server would parse a row of JSON again for
-- each of its fields.

-- Lanes that are open, empty or waiting now. Of claims in which no lane waits, the last columns are
-- empty. If a lane is gone, the claim rolls back.
CREATE OR REPLACE FUNCTION sluice.write_plain_lanes(
  p_ids bigint[], p_states int[], p_priorities bigint[], p_heads bigint[], p_turns bigint[],
  p_taken int[], p_now bigint, p_sieves text[], p_buckets bigint[], p_over text[],
  p_deputies bigint[]
) RETURNS void LANGUAGE plpgsql {{by_list}} AS $f$
DECLARE v_count int;
BEGIN
  UPDATE sluice.lanes l
  SET state = g.state, priority = g.priority, head = g.head, turn = g.turn, taken = g.taken,
    bucket = g.bucket, over = coalesce(g.over, ''), deputy_of = g.deputy_of, sieve = g.sieve,
    passed = NULL, emptied = CASE WHEN g.state = {{lane.empty}} THEN p_now ELSE l.emptied END
  FROM unnest(
      p_ids, p_states, p_priorities, p_heads, p_turns, p_taken, p_sieves, p_buckets, p_over,
      p_deputies
    ) g(id, state, priority, head, turn, taken, sieve, bucket, over, deputy_of)
  WHERE l.id = ANY (p_ids) AND l.id = g.id;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count <> cardinality(p_ids) THEN RAISE EXCEPTION '[]' USING ERRCODE = 'SL002'; END IF;
END $f$;

-- The signature that older processes call.
CREATE OR REPLACE FUNCTION sluice.write_plain_lanes(
  p_ids bigint[], p_states int[], p_priorities bigint[], p_heads bigint[], p_turns bigint[],
  p_taken int[], p_now bigint
) RETURNS void LANGUAGE sql AS $f$
  SELECT sluice.write_plain_lanes(
    p_ids, p_states, p_priorities, p_heads, p_turns, p_taken, p_now, '{}', '{}', '{}', '{}'
  ) $f$;

-- Buckets; where the state is null, it and its revision stay.
CREATE OR REPLACE FUNCTION sluice.write_buckets(
  p_ids bigint[], p_wake_at bigint[], p_states text[], p_revisions int[], p_active int[],
  p_deferred int[], p_told bigint[]
) RETURNS void LANGUAGE plpgsql {{by_list}} AS $f$
DECLARE v_count int;
BEGIN
  UPDATE sluice.buckets b
  SET wake_at = g.wake_at, state = coalesce(g.state, b.state),
    revision = CASE WHEN g.state IS NULL THEN b.revision ELSE g.revision END, active = g.active,
    deferred = g.deferred, told = g.told
  FROM unnest(p_ids, p_wake_at, p_states, p_revisions, p_active, p_deferred, p_told) g(
      id, wake_at, state, revision, active, deferred, told
    )
  WHERE b.id = ANY (p_ids) AND b.id = g.id;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count <> cardinality(p_ids) THEN RAISE EXCEPTION '[]' USING ERRCODE = 'SL002'; END IF;
END $f$;
