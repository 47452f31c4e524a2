-- The retry of a flow's discarded job, and the results that runs of a flow get.

-- Reopens the flow of a discarded node that a caller retries; its flow is locked. The jobs that its
-- failure cancelled wait again. Callbacks that ran do not run again.
CREATE OR REPLACE FUNCTION sluice.reopen(
  p_seq bigint
) RETURNS void LANGUAGE plpgsql {{as_written}} AS $f$
DECLARE v_flow record; v_seq bigint; v_waits int; v_never int; v_revived int := 0;
BEGIN
  SELECT f.seq, f.state, f.total INTO v_flow FROM sluice.jobs j
  JOIN sluice.flows f ON f.seq = j.flow
  WHERE j.seq = p_seq AND j.node < f.total;
  IF NOT FOUND THEN RETURN; END IF;
  UPDATE sluice.flows SET discarded = discarded - 1 WHERE seq = v_flow.seq;
  IF v_flow.state = {{flow.cancelled}} THEN RETURN; END IF;
  -- In the order of nodes, in which each comes after all that it waits for.
  FOR v_seq IN
  WITH RECURSIVE behind (seq) AS (
    SELECT e.behind FROM sluice.flow_edges e WHERE e.before = p_seq
    UNION
    SELECT e.behind FROM behind b
    JOIN sluice.flow_edges e ON e.before = b.seq
  )
    SELECT j.seq FROM behind b
    JOIN sluice.jobs j ON j.seq = b.seq
    WHERE j.state + 0 = {{job.cancelled}} AND j.error = '{{stopped}}' ORDER BY j.node
  LOOP
    SELECT count(*), count(*) FILTER (WHERE j.state IN ({{job.cancelled}}, {{job.discarded}}))
    INTO v_waits, v_never
    FROM sluice.flow_edges e
    JOIN sluice.jobs j ON j.seq = e.before
    WHERE e.behind = v_seq AND j.state <> {{job.completed}};
    CONTINUE WHEN v_never > 0;
    UPDATE sluice.jobs
    SET state = {{job.pending}}, waits = v_waits, error = NULL, finished = NULL
    WHERE seq = v_seq;
    v_revived := v_revived + 1;
  END LOOP;
  IF v_flow.state <> {{flow.running}} THEN
    UPDATE sluice.jobs
    SET state = {{job.pending}}, error = NULL, finished = NULL
    WHERE flow = v_flow.seq AND node >= v_flow.total AND state + 0 = {{job.cancelled}}
      AND error = '{{stopped}}';
  END IF;
  UPDATE sluice.flows
  SET cancelled = cancelled - v_revived, state = {{flow.running}}, finished = NULL, due = NULL
  WHERE seq = v_flow.seq;
END $f$;

-- The flow places of those of these jobs that belong to flows, and as a list the results that they
-- get. Null: a callback whose results together are over the bound.
CREATE OR REPLACE FUNCTION sluice.flow_runs(
  p_seqs bigint[]
) RETURNS TABLE (
  r_seq bigint, r_flow uuid, r_node int, r_total int, r_results text, r_kind text, r_step text,
  r_item int, r_moves int
) LANGUAGE plpgsql STABLE {{as_written}} AS $f$
BEGIN
  RETURN QUERY SELECT j.seq, f.id, j.node, f.total, CASE
    WHEN j.node >= f.total AND f.bytes > {{max_parent_results_bytes}} THEN NULL
    WHEN j.node < f.total AND f.edges = 0 THEN '[]'
    -- A walk along a chain would find the same, but slower.
    WHEN j.node >= f.total OR f.kind = 'chain' THEN
      (
        SELECT coalesce(json_agg(d.result ORDER BY d.node), '[]')::text FROM sluice.jobs d
        WHERE d.flow = j.flow AND d.node < least(j.node, f.total)
      )
    ELSE (
      WITH RECURSIVE ahead (seq) AS (
        SELECT e.before FROM sluice.flow_edges e WHERE e.behind = j.seq
        UNION
        SELECT e.before FROM ahead a
        JOIN sluice.flow_edges e ON e.behind = a.seq
      )
      SELECT coalesce(json_agg(d.result ORDER BY d.node), '[]')::text FROM ahead a
      JOIN sluice.jobs d ON d.seq = a.seq
    ) END,
    f.kind, j.step, j.item, j.moves
  FROM sluice.jobs j JOIN sluice.flows f ON f.seq = j.flow WHERE j.seq = ANY (p_seqs);
END $f$;
