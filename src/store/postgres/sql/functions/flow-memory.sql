-- The memories of the workflow flows of these jobs: one row for each flow, with one of the jobs and
-- with all of them. p_main: only for main jobs of flows whose entries need it at once. Steps are in
-- the order of their first writing, signals are unread ones, oldest first.
CREATE OR REPLACE FUNCTION sluice.flow_memories(
  p_seqs bigint[], p_main boolean
) RETURNS TABLE (
  r_job bigint, r_jobs text, r_id uuid, r_state int, r_created bigint, r_generation int,
  r_events bigint, r_open int, r_total int, r_name text, r_key text, r_definition text, r_hash text,
  r_held text, r_kind text, r_input text, r_steps text, r_signals text, r_now bigint, r_wall bigint
) LANGUAGE plpgsql STABLE {{as_written}} AS $f$
DECLARE v_now bigint := sluice.now_us(); v_wall bigint := sluice.wall_us();
BEGIN
  RETURN QUERY
  SELECT o.job, o.jobs, f.id, f.state::int, f.created, f.generation, f.events, f.open, f.total,
    f.name, f.key, f.definition, f.hash, f.held, f.kind, m.input,
    -- A machine continues from its state. Of its history it gets the steps that have yet to end,
    -- and those it waited for.
    (
      SELECT json_agg(
        json_build_array(
          s.name, s.state, s.result, s.error, s.input, s.attempt, s.started, s.finished, s.waited,
          s.waited_for, s.due, s.remaining
        ) ORDER BY s.at
      )::text
      FROM sluice.flow_steps s
      WHERE s.flow = f.seq AND s.generation = f.generation AND (
        f.kind <> 'machine' OR s.node IS NOT NULL
          OR s.state NOT IN ('done', 'failed', 'skipped')
      )
    ),
    (
      SELECT json_agg(json_build_array(g.seq, g.name, g.payload) ORDER BY g.seq)::text
      FROM sluice.flow_signals g
      WHERE g.flow = f.seq AND g.payload IS NOT NULL
    ),
    v_now, v_wall
  FROM (
    SELECT j.flow, min(j.seq) AS job, json_agg(j.seq)::text AS jobs FROM unnest(p_seqs) u(seq)
    JOIN sluice.jobs j ON j.seq = u.seq
    WHERE j.flow IS NOT NULL AND (NOT p_main OR j.node = 0) GROUP BY j.flow
  ) o
  JOIN sluice.flows f ON f.seq = o.flow
  JOIN sluice.jobs m ON m.flow = f.seq AND m.node = 0
  WHERE f.kind IN ('workflow', 'graph') OR (f.kind = 'machine' AND NOT p_main);
END $f$;
