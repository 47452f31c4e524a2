-- Stores a signal for a flow, and wakes its main job if that waits for it. The flow is that of
-- p_id, or the running one of p_name with p_key. It is locked before its job, as by all that
-- changes both.
CREATE OR REPLACE FUNCTION sluice.signal_flow(
  p_id uuid, p_name text, p_key text, p_signal text, p_payload text, p_once text,
  OUT r_kind text, OUT r_id text, OUT r_woke boolean
) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE v_seq bigint; v_state int; v_events bigint; v_main bigint;
BEGIN
  r_woke := false;
  LOOP
    IF p_key IS NULL THEN
      SELECT f.seq INTO v_seq FROM sluice.flows f
      WHERE f.id = p_id AND (p_name IS NULL OR f.name = p_name)
        AND f.kind IN ('workflow', 'machine', 'graph');
    ELSE
      SELECT f.seq INTO v_seq FROM sluice.flows f
      WHERE f.name = p_name AND f.key = p_key AND f.state = {{flow.running}};
    END IF;
    SELECT f.id, f.state, f.events INTO r_id, v_state, v_events
    FROM sluice.flows f WHERE f.seq = v_seq FOR UPDATE;
    IF NOT FOUND THEN
      r_kind := 'missing';
      RETURN;
    END IF;
    -- A sender that lost the answer asks again, perhaps after its signal has let the flow end.
    IF p_once IS NOT NULL AND EXISTS (
      SELECT 1 FROM sluice.flow_signals s
      WHERE s.flow = v_seq AND s.name = p_signal AND s.once = p_once
    ) THEN
      r_kind := 'duplicate';
      RETURN;
    END IF;
    EXIT WHEN v_state = {{flow.running}};
    -- It ended before it was locked: another may have the key by now.
    IF p_key IS NULL THEN
      r_kind := 'ended';
      RETURN;
    END IF;
  END LOOP;
  IF v_events >= {{max_unread_signals}} AND EXISTS (
    SELECT 1 FROM sluice.flow_signals s WHERE s.flow = v_seq AND s.payload IS NOT NULL
    OFFSET {{max_unread_signals}} - 1
  ) THEN
    r_kind := 'full';
    RETURN;
  END IF;
  r_kind := 'stored';
  INSERT INTO sluice.flow_signals (flow, name, payload, once)
  VALUES (v_seq, p_signal, p_payload, p_once);
  UPDATE sluice.flows f SET events = f.events + 1 WHERE f.seq = v_seq;
  -- After a failed run its job waits for the next attempt, and not for signals.
  SELECT j.seq INTO v_main FROM sluice.jobs j
  WHERE j.flow = v_seq AND j.node = 0 AND j.state IN ({{job.pending}}, {{job.retryable}})
    AND j.awaits IS NOT NULL AND j.pushed_back = 0
    AND (j.awaits::json ->> 'attempt')::int = j.attempt
    AND p_signal IN (SELECT json_array_elements_text(j.awaits::json -> 'signals'))
  FOR UPDATE;
  IF FOUND THEN
    PERFORM sluice.wake_jobs(ARRAY[v_main]);
    r_woke := true;
  END IF;
END $f$;
