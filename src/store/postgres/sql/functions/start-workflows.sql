-- Stores workflow flows and their jobs in one statement. Like an enqueue it only inserts. p_keys:
-- null if none has a key. Null: a running flow has one of the keys, and nothing was stored; if one
-- was stored at this moment, the unique index refuses. p_of: the place of each job's flow among the
-- flows, from 1. The parameters behind it are those of sluice.insert_jobs.
CREATE OR REPLACE FUNCTION sluice.start_workflows(
  p_flow_ids uuid[], p_kinds text[], p_names text[], p_totals int[], p_flow_extras text[],
  p_hashes text[], p_definitions text[], p_owners text[], p_owner_queues text[], p_keys text[],
  p_of int[], p_nodes int[], p_steps text[], p_ids uuid[], p_tasks text[], p_queues text[],
  p_lanes text[], p_levels bigint[], p_max_attempts int[], p_run_at bigint[], p_expires bigint[],
  p_uses text[], p_weights text[], p_unique text[], p_inputs text[], p_extras text[],
  p_schedules text[], p_occurs bigint[], p_asked int[], p_fair text[], p_shares int[],
  p_terms json[], p_worker bigint DEFAULT NULL, p_lease_us bigint DEFAULT NULL,
  p_claim uuid DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_seqs bigint[]; v_now bigint := sluice.now_us();
BEGIN
  IF p_keys IS NOT NULL AND EXISTS (
    SELECT 1 FROM unnest(p_names, p_keys) k(name, key)
    JOIN sluice.flows f ON f.name = k.name AND f.key = k.key AND f.state = {{flow.running}}
  ) THEN
    RETURN NULL;
  END IF;
  v_seqs := ARRAY(SELECT nextval('sluice.flows_seq_seq') FROM unnest(p_flow_ids));
  INSERT INTO sluice.flows (
    seq, id, kind, name, total, edges, created, extra, hash, definition, owner, owner_queue,
    key
  )
  OVERRIDING SYSTEM VALUE
  SELECT g.seq, g.id, g.kind, g.name, g.total, 0, v_now, g.extra, g.hash, g.definition, g.owner,
    g.owner_queue, g.key
  FROM unnest(
    v_seqs, p_flow_ids, p_kinds, p_names, p_totals, p_flow_extras, p_hashes, p_definitions,
    p_owners, p_owner_queues, p_keys
  ) g(seq, id, kind, name, total, extra, hash, definition, owner, owner_queue, key)
  -- Transactions that wait for each other's keys take them in one order.
  ORDER BY g.name COLLATE "C", g.key COLLATE "C", g.seq;
  RETURN sluice.insert_jobs(
    p_ids, p_tasks, p_queues, p_lanes, p_levels, p_max_attempts, p_run_at, p_expires, p_uses,
    p_weights, p_unique, p_inputs, p_extras, p_schedules, p_occurs, p_asked, p_fair, p_shares,
    p_terms, ARRAY(SELECT v_seqs[o.place] FROM unnest(p_of) WITH ORDINALITY o(place, n) ORDER BY n),
    p_nodes, p_steps, NULL, NULL, p_worker, p_lease_us, p_claim
  );
END $f$;
