-- Runs of workflow flows that write steps, and then stay or end.

-- Writes steps of runs. p_seqs, p_flows, p_generations: the runs that counted, with their flows and
-- the generations of these. p_of: the run of each step. Of two with one name the later counts.
CREATE OR REPLACE FUNCTION sluice.write_flow_steps(
  p_seqs bigint[], p_flows bigint[], p_generations int[],
  p_of bigint[], p_names text[], p_ends text[], p_results text[], p_errors text[], p_tries int[],
  p_begun bigint[], p_finished bigint[], p_waited bigint[], p_waited_for text[], p_until bigint[],
  p_states_before text[]
) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  IF p_seqs IS NULL OR cardinality(p_of) = 0 THEN RETURN; END IF;
  INSERT INTO sluice.flow_steps AS s (
    flow, generation, name, state, result, error, attempt, started, finished, waited, waited_for,
    due, input
  )
  SELECT d.flow, d.generation, d.name, d.ends, d.result, d.error, d.tries, d.begun, d.finished,
    d.waited, d.waited_for, d.until, d.state_before
  FROM (
    SELECT e.*, m.flow, m.generation,
      row_number() OVER (PARTITION BY m.flow, m.generation, e.name ORDER BY e.n DESC) AS from_last
    FROM unnest(
        p_of, p_names, p_ends, p_results, p_errors, p_tries, p_begun, p_finished, p_waited,
        p_waited_for, p_until, p_states_before
      ) WITH ORDINALITY e(
        seq, name, ends, result, error, tries, begun, finished, waited, waited_for, until,
        state_before, n
      )
    JOIN unnest(p_seqs, p_flows, p_generations) m(seq, flow, generation) ON m.seq = e.seq
  ) d
  WHERE d.from_last = 1 ORDER BY d.n
  ON CONFLICT (flow, generation, name) DO UPDATE SET
    state = excluded.state, result = excluded.result, error = excluded.error,
    attempt = excluded.attempt, started = excluded.started, finished = excluded.finished,
    waited = excluded.waited, waited_for = excluded.waited_for, due = excluded.due,
    input = excluded.input, remaining = NULL;
END $f$;

-- Writes what runs have done so far, in one statement for a whole batch, sorted by seq. p_states
-- and what follows end a run, as in sluice.settle; a null state lets it stay. p_writes: it has
-- steps, a new input or signals that were read, the latter as p_read of the runs p_reader. A row
-- counts only while the worker holds the lease of that run and its flow may remember as much. The
-- answer has the rows that counted, as that of sluice.settle.
CREATE OR REPLACE FUNCTION sluice.stay_or_end(
  p_seqs bigint[], p_workers bigint[], p_runs int[], p_started bigint[], p_moves int[],
  p_inputs text[], p_kept int[], p_bytes bigint[], p_writes boolean[], p_states int[],
  p_after bigint[], p_results text[], p_errors text[], p_reader bigint[], p_read bigint[],
  p_retention bigint[],
  p_of bigint[], p_names text[], p_ends text[], p_step_results text[], p_step_errors text[],
  p_tries int[], p_begun bigint[], p_finished bigint[], p_waited bigint[], p_waited_for text[],
  p_until bigint[], p_states_before text[]
) RETURNS TABLE (
  r_seq bigint, r_attempt int, r_state int, r_now bigint, r_work boolean, r_flows text,
  r_ends boolean
) LANGUAGE plpgsql {{by_index}} AS $f$
DECLARE
  v_seqs bigint[]; v_flows bigint[]; v_generations int[]; v_now bigint := sluice.now_us();
  v_ending int[];
BEGIN
  IF true = ANY (p_writes) THEN
    WITH written AS (
      UPDATE sluice.jobs j
      SET kept = j.kept + g.kept, bytes = j.bytes + g.bytes, input = coalesce(g.input, j.input)
      FROM unnest(
        p_seqs, p_workers, p_runs, p_started, p_moves, p_inputs, p_kept, p_bytes, p_writes
      ) g(seq, worker, run, started, moves, input, kept, bytes, writes)
      WHERE g.writes AND j.seq = g.seq
        AND j.state + 0 = {{job.active}} AND j.worker = g.worker AND j.attempt = g.run
        AND j.moves = g.moves AND j.started = coalesce(g.started, j.started)
        -- A look for one row: a join could be planned from all flows, while those are few.
        AND (
          SELECT f.kind = 'machine' OR j.node > 0 OR (
            j.kept + f.kept + g.kept <= {{max_flow_steps}}
              AND j.bytes + f.bytes + g.bytes <= {{max_flow_bytes}}
          )
          FROM sluice.flows f WHERE f.seq = j.flow
        )
      RETURNING j.seq, j.flow
    )
    SELECT array_agg(w.seq), array_agg(w.flow), array_agg(
      (SELECT f.generation FROM sluice.flows f WHERE f.seq = w.flow)
    )
    INTO v_seqs, v_flows, v_generations FROM written w;
    PERFORM sluice.write_flow_steps(
      v_seqs, v_flows, v_generations, p_of, p_names, p_ends, p_step_results, p_step_errors, p_tries,
      p_begun, p_finished, p_waited, p_waited_for, p_until, p_states_before
    );
    IF cardinality(p_read) > 0 THEN
      p_read := ARRAY(
        SELECT r.signal FROM unnest(p_reader, p_read) r(seq, signal) WHERE r.seq = ANY (v_seqs)
      );
      UPDATE sluice.flow_signals SET payload = NULL WHERE seq = ANY (p_read) AND once IS NOT NULL;
      DELETE FROM sluice.flow_signals WHERE seq = ANY (p_read) AND once IS NULL;
    END IF;
  END IF;
  RETURN QUERY SELECT s.seq, s.run, {{job.active}}, v_now, false, NULL::text, false
  FROM unnest(p_seqs, p_runs, p_states) s(seq, run, state)
  WHERE s.state IS NULL AND s.seq = ANY (v_seqs);
  v_ending := ARRAY(
    SELECT e.n FROM unnest(p_seqs, p_states, p_writes) WITH ORDINALITY e(seq, state, writes, n)
    WHERE e.state IS NOT NULL AND (NOT e.writes OR e.seq = ANY (v_seqs)) ORDER BY e.n
  );
  IF cardinality(v_ending) = 0 THEN RETURN; END IF;
  RETURN QUERY SELECT * FROM sluice.settle(
    ARRAY(SELECT p_seqs[n] FROM unnest(v_ending) n),
    ARRAY(SELECT p_runs[n] FROM unnest(v_ending) n),
    ARRAY(SELECT p_workers[n] FROM unnest(v_ending) n),
    ARRAY(SELECT p_states[n] FROM unnest(v_ending) n),
    ARRAY(SELECT p_after[n] FROM unnest(v_ending) n),
    ARRAY(SELECT p_results[n] FROM unnest(v_ending) n),
    ARRAY(SELECT p_errors[n] FROM unnest(v_ending) n), array_fill(0, ARRAY[cardinality(v_ending)]),
    p_retention, ARRAY(SELECT p_started[n] FROM unnest(v_ending) n),
    ARRAY(SELECT p_moves[n] FROM unnest(v_ending) n)
  );
END $f$;

-- Ends the flows of those of these ended main jobs that have nothing else: no other job, no child,
-- no parent and no permits. A flow that another transaction holds is left. Returns the jobs that
-- are left, and an array of news as sluice.advance does; null: none.
CREATE OR REPLACE FUNCTION sluice.end_alone(
  p_seqs bigint[], p_retention bigint[], p_now bigint, OUT r_left bigint[], OUT r_news json
) LANGUAGE plpgsql {{as_written}} AS $f$
DECLARE v_ended bigint[];
BEGIN
  WITH alone AS MATERIALIZED (
    SELECT f.seq AS flow, j.seq, j.state, j.error FROM unnest(p_seqs) s(seq)
    CROSS JOIN LATERAL (SELECT * FROM sluice.jobs WHERE seq = s.seq {{apart}}) j
    JOIN sluice.flows f ON f.seq = j.flow
    WHERE j.node = 0 AND j.due IS NULL AND f.kind IN ('workflow', 'machine', 'graph')
      AND f.state = {{flow.running}} AND f.total = 1 AND f.open = 0 AND f.parent IS NULL
      AND f.held IS NULL AND NOT EXISTS (
        SELECT 1 FROM sluice.flows c WHERE c.parent = f.seq AND c.state = {{flow.running}}
      )
    ORDER BY f.seq FOR UPDATE OF f SKIP LOCKED
  ), ended AS (
    UPDATE sluice.flows f
    SET completed = f.completed + (a.state = {{job.completed}})::int,
      discarded = f.discarded + (a.state = {{job.discarded}})::int,
      cancelled = f.cancelled + (a.state = {{job.cancelled}})::int,
      state = CASE a.state
        WHEN {{job.completed}} THEN {{flow.completed}}
        WHEN {{job.cancelled}} THEN {{flow.cancelled}}
        ELSE {{flow.failed}}
      END,
      error = CASE WHEN a.state = {{job.discarded}} THEN a.error END,
      finished = p_now,
      due = p_now + p_retention[
        CASE a.state
          WHEN {{job.completed}} THEN {{retention.completed}}
          WHEN {{job.cancelled}} THEN {{retention.cancelled}}
          ELSE {{retention.discarded}}
        END
      ]
    FROM alone a WHERE f.seq = a.flow
    RETURNING a.seq, f.id, f.kind, f.name, f.state, f.error
  )
  SELECT array_agg(e.seq),
    json_agg(json_build_array(e.seq, e.id, e.kind, e.name, e.state, NULL, NULL, NULL, e.error))
  INTO v_ended, r_news FROM ended e;
  r_left := CASE
    WHEN v_ended IS NULL THEN p_seqs
    ELSE ARRAY(SELECT unnest(p_seqs) EXCEPT SELECT unnest(v_ended))
  END;
END $f$;

-- Applies the ends of jobs to their flows as sluice.advance does, after those of flows that end
-- alone. p_workflows: some are jobs of workflow flows. r_ends: the caller has to apply ends that
-- were noted. r_work: some job may start.
CREATE OR REPLACE FUNCTION sluice.end_in_flows(
  p_seqs bigint[], p_workflows boolean, p_retention bigint[], p_now bigint,
  OUT r_flows text, OUT r_ends boolean, OUT r_work boolean
) LANGUAGE plpgsql {{as_written}} AS $f$
DECLARE v_alone json;
BEGIN
  r_ends := false;
  IF p_workflows THEN
    SELECT e.r_left, e.r_news INTO p_seqs, v_alone
    FROM sluice.end_alone(p_seqs, p_retention, p_now) e;
  END IF;
  IF cardinality(p_seqs) > 0 THEN
    r_flows := sluice.advance(p_seqs, p_retention);
    r_ends := EXISTS (SELECT 1 FROM sluice.flow_ends e WHERE e.seq = ANY (p_seqs));
  END IF;
  r_work := r_flows IS NOT NULL;
  IF v_alone IS NOT NULL THEN
    r_flows := (
      SELECT json_agg(n) FROM (
        SELECT json_array_elements(v_alone) AS n
        UNION ALL
        SELECT json_array_elements(r_flows::json)
      ) news
    )::text;
  END IF;
END $f$;
