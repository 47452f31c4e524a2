-- The effect of ended jobs on their flows (jobs/flow.ts describes it in words and small functions).
--
-- The order of locks, everywhere: jobs that wait or run (by seq; a claim skips locked ones),
-- buckets (by id), flows (by seq), and last those jobs of the flows that are pending or have ended.
-- A holder of a flow waits for nothing but such jobs, and a holder of such a job waits for no flow.
-- So only a holder of its flow cancels a pending job (cancel.ts), and a process that ends a flow
-- first locks those of its jobs that wait or run (cancel-flow.ts). A process that does not find a
-- job in its expected place starts again, since it cannot give a lock back.

-- Notes the ends of those of these jobs that belong to workflow flows. The processes apply them
-- (store/shared/workflows), each in a transaction of its own. Returns the other jobs of flows.
CREATE OR REPLACE FUNCTION sluice.note_ends(
  p_seqs bigint[]
) RETURNS bigint[] LANGUAGE plpgsql {{as_written}} AS $f$
DECLARE v_noted bigint[];
BEGIN
  -- A look for one row: a join could be planned from all flows, while those are few.
  v_noted := ARRAY(
    SELECT j.seq FROM sluice.jobs j
    WHERE j.seq = ANY (p_seqs) AND (
      SELECT f.kind IN ('workflow', 'machine', 'graph') FROM sluice.flows f WHERE f.seq = j.flow
    )
  );
  IF cardinality(v_noted) = 0 THEN RETURN p_seqs; END IF;
  INSERT INTO sluice.flow_ends (seq) SELECT unnest(v_noted) ON CONFLICT DO NOTHING;
  RETURN ARRAY(SELECT unnest(p_seqs) EXCEPT SELECT unnest(v_noted));
END $f$;

-- Locks the plain flows of these jobs; returns those that still exist.
CREATE OR REPLACE FUNCTION sluice.lock_flows(
  p_seqs bigint[]
) RETURNS bigint[] LANGUAGE plpgsql {{as_written}} AS $f$
DECLARE v_flows bigint[];
BEGIN
  v_flows := ARRAY(
    SELECT DISTINCT j.flow FROM sluice.jobs j
    WHERE j.seq = ANY (p_seqs) AND (
      SELECT f.kind NOT IN ('workflow', 'machine', 'graph') FROM sluice.flows f
      WHERE f.seq = j.flow
    )
  );
  IF cardinality(v_flows) = 0 THEN RETURN v_flows; END IF;
  RETURN ARRAY(
    SELECT f.seq FROM sluice.flows f WHERE f.seq = ANY (v_flows) ORDER BY f.seq FOR UPDATE
  );
END $f$;

-- The total size of the results of all jobs that one waits for.
CREATE OR REPLACE FUNCTION sluice.bytes_before(
  p_seq bigint
) RETURNS bigint LANGUAGE plpgsql STABLE {{as_written}} AS $f$
BEGIN
  RETURN (
    WITH RECURSIVE ahead (seq) AS (
      SELECT e.before FROM sluice.flow_edges e WHERE e.behind = p_seq
      UNION
      SELECT e.before FROM ahead a
      JOIN sluice.flow_edges e ON e.behind = a.seq
    )
    SELECT coalesce(sum(octet_length(j.result)), 0) FROM ahead a
    JOIN sluice.jobs j ON j.seq = a.seq
  );
END $f$;

-- Applies the end of jobs in this transaction to their flows. It counts them, starts or cancels the
-- jobs that waited for them, ends flows and starts callbacks. The answer has an array for each flow
-- with news: the first of the jobs, id, kind, name, its new state or null, activated, cancelled,
-- discarded. Null: no news.
CREATE OR REPLACE FUNCTION sluice.advance(
  p_seqs bigint[], p_retention bigint[]
) RETURNS text LANGUAGE plpgsql {{as_written}} AS $f$
DECLARE
  v_now bigint; v_wall bigint; v_flows bigint[]; v_near bigint[]; v_waits int[]; v_over bigint[];
  v_large bigint[];
  v_ready bigint[] := '{}'; v_discarded bigint[] := '{}'; v_stopped bigint[] := '{}';
  v_uncalled bigint[] := '{}';
BEGIN
  p_seqs := sluice.note_ends(p_seqs);
  IF cardinality(p_seqs) = 0 THEN RETURN NULL; END IF;
  v_flows := sluice.lock_flows(p_seqs);
  IF cardinality(v_flows) = 0 THEN RETURN NULL; END IF;
  v_now := sluice.now_us();
  v_wall := sluice.wall_us();
  -- Ended jobs are kept as long as their flow.
  UPDATE sluice.jobs j
  SET due = NULL
  FROM sluice.flows f WHERE j.seq = ANY (p_seqs) AND f.seq = j.flow AND j.due IS NOT NULL;
  IF EXISTS (
    SELECT 1 FROM sluice.flows WHERE seq = ANY (v_flows) AND state = {{flow.running}} AND edges > 0
  ) THEN
    SELECT array_agg(j.seq), array_agg(j.waits - n.done) INTO v_near, v_waits FROM (
      SELECT e.behind, count(*)::int AS done FROM unnest(p_seqs) s(seq)
      CROSS JOIN LATERAL (SELECT * FROM sluice.jobs WHERE seq = s.seq {{apart}}) d
      JOIN sluice.flows f ON f.seq = d.flow
      JOIN sluice.flow_edges e ON e.before = d.seq
      WHERE d.state + 0 = {{job.completed}} AND f.state = {{flow.running}} GROUP BY e.behind) n
    JOIN sluice.jobs j ON j.seq = n.behind WHERE j.state + 0 = {{job.pending}};
    UPDATE sluice.jobs j
    SET waits = n.waits
    FROM unnest(v_near, v_waits) n(seq, waits) WHERE j.seq = n.seq AND n.waits > 0;
    v_ready := ARRAY(SELECT n.seq FROM unnest(v_near, v_waits) n(seq, waits) WHERE n.waits = 0);
    v_large := ARRAY(
      SELECT f.seq FROM unnest(p_seqs) s(seq)
      CROSS JOIN LATERAL (SELECT * FROM sluice.jobs WHERE seq = s.seq {{apart}}) d
      JOIN sluice.flows f ON f.seq = d.flow
      WHERE d.node < f.total
      GROUP BY f.seq
      HAVING f.bytes + coalesce(sum(octet_length(d.result)), 0) > {{max_parent_results_bytes}}
    );
    IF cardinality(v_large) > 0 THEN
      v_discarded := ARRAY(
        SELECT j.seq FROM sluice.jobs j
        WHERE j.seq = ANY (v_ready) AND j.flow = ANY (v_large)
          AND sluice.bytes_before(j.seq) > {{max_parent_results_bytes}}
      );
      UPDATE sluice.jobs
      SET state = {{job.discarded}}, waits = 0, finished = v_now, error = '{{too_large}}'
      WHERE seq = ANY (v_discarded);
      v_ready := ARRAY(SELECT unnest(v_ready) EXCEPT SELECT unnest(v_discarded));
    END IF;
    WITH RECURSIVE behind (seq) AS (
      SELECT e.behind FROM unnest(p_seqs || v_discarded) s(seq)
      CROSS JOIN LATERAL (SELECT * FROM sluice.jobs WHERE seq = s.seq {{apart}}) d
      JOIN sluice.flows f ON f.seq = d.flow
      JOIN sluice.flow_edges e ON e.before = d.seq
      WHERE d.state + 0 IN ({{job.cancelled}}, {{job.discarded}}) AND f.state = {{flow.running}}
      UNION SELECT e.behind FROM behind b JOIN sluice.flow_edges e ON e.before = b.seq
    ), stopped AS (
      UPDATE sluice.jobs j
      SET state = {{job.cancelled}}, finished = v_now, error = '{{stopped}}'
      FROM behind b WHERE j.seq = b.seq AND j.state + 0 = {{job.pending}}
      RETURNING j.seq
    )
    SELECT coalesce(array_agg(seq), '{}') INTO v_stopped FROM stopped;
  END IF;
  -- A callback, or a straggler of a cancelled flow, is kept for its own time, and the flow with it.
  WITH counted AS (
    SELECT d.flow,
      count(*) FILTER (WHERE d.state = {{job.completed}} AND d.node < f.total) AS completed,
      count(*) FILTER (WHERE d.state = {{job.discarded}} AND d.node < f.total) AS discarded,
      count(*) FILTER (WHERE d.state = {{job.cancelled}} AND d.node < f.total) AS cancelled,
      coalesce(sum(octet_length(d.result)) FILTER (WHERE d.node < f.total), 0) AS bytes,
      max(
        p_retention[
          CASE d.state
            WHEN {{job.completed}} THEN {{retention.completed}}
            WHEN {{job.cancelled}} THEN {{retention.cancelled}}
            ELSE {{retention.discarded}}
          END
        ]
      ) AS kept
    FROM unnest(p_seqs || v_discarded || v_stopped) s(seq)
    CROSS JOIN LATERAL (SELECT * FROM sluice.jobs WHERE seq = s.seq {{apart}}) d
    JOIN sluice.flows f ON f.seq = d.flow
    GROUP BY d.flow
  ), tallied AS (
    SELECT f.seq, f.state = {{flow.running}} AS ran, f.completed + c.completed AS completed,
      f.discarded + c.discarded AS discarded, f.cancelled + c.cancelled AS cancelled,
      f.bytes + c.bytes AS bytes,
      c.kept,
      f.completed + c.completed + f.discarded + c.discarded + f.cancelled
        + c.cancelled >= f.total AS over
    FROM counted c JOIN sluice.flows f ON f.seq = c.flow
  ), written AS (
    UPDATE sluice.flows f
    SET completed = t.completed, discarded = t.discarded, cancelled = t.cancelled, bytes = t.bytes,
      state = CASE
        WHEN NOT t.ran OR NOT t.over THEN f.state
        WHEN t.completed = f.total THEN {{flow.completed}}
        ELSE {{flow.failed}}
      END,
      finished = CASE WHEN t.ran AND t.over THEN v_now ELSE f.finished END,
      due = CASE
        WHEN NOT t.ran THEN greatest(f.due, v_now + t.kept)
        WHEN t.over
          THEN v_now + p_retention[
            CASE
              WHEN t.completed = f.total THEN {{retention.completed}}
              ELSE {{retention.discarded}}
            END
          ]
        ELSE f.due
      END
    FROM tallied t WHERE f.seq = t.seq RETURNING f.seq, t.ran AND t.over AS over
  )
  SELECT coalesce(array_agg(seq) FILTER (WHERE over), '{}') INTO v_over FROM written;
  IF cardinality(v_over) > 0 THEN
    -- By their places: success, failure, complete.
    WITH uncalled AS (
      UPDATE sluice.jobs j
      SET state = {{job.cancelled}}, finished = v_now, error = '{{stopped}}'
      FROM sluice.flows f
      WHERE f.seq = ANY (v_over) AND j.flow = f.seq
        AND j.node = f.total + CASE f.state WHEN {{flow.completed}} THEN 1 ELSE 0 END
        AND j.state + 0 = {{job.pending}}
      RETURNING j.seq
    )
    SELECT coalesce(array_agg(seq), '{}') INTO v_uncalled FROM uncalled;
    v_ready := v_ready || ARRAY(
      SELECT j.seq FROM sluice.flows f
      JOIN sluice.jobs j ON j.flow = f.seq AND j.node >= f.total
      WHERE f.seq = ANY (v_over) AND j.state + 0 = {{job.pending}}
    );
  END IF;
  IF cardinality(v_ready || v_stopped || v_discarded || v_over) = 0 THEN RETURN NULL; END IF;
  IF cardinality(v_ready) > 0 THEN PERFORM sluice.begin_jobs(v_ready, v_now, v_wall); END IF;
  RETURN (SELECT json_agg(news) FROM (
    SELECT json_build_array(
      min(j.seq) FILTER (WHERE m.how = 3), f.id, f.kind, f.name,
      CASE WHEN f.seq = ANY (v_over) THEN f.state END,
      json_agg(json_build_array(j.id, j.task, j.queue) ORDER BY j.seq) FILTER (WHERE m.how = 0),
      json_agg(json_build_array(j.id, j.task, j.queue) ORDER BY j.seq) FILTER (WHERE m.how = 1),
      json_agg(
        json_build_array(j.id, j.task, j.queue, j.input) ORDER BY j.seq
      ) FILTER (WHERE m.how = 2)
    ) AS news
    FROM (
      SELECT unnest(v_ready) AS seq, 0 AS how
      UNION ALL
      SELECT unnest(v_stopped || v_uncalled), 1
      UNION ALL
      SELECT unnest(v_discarded), 2
      UNION ALL
      SELECT unnest(p_seqs), 3
    ) m
    JOIN sluice.jobs j ON j.seq = m.seq JOIN sluice.flows f ON f.seq = j.flow
    GROUP BY f.seq HAVING bool_or(m.how < 3) OR f.seq = ANY (v_over) ORDER BY f.seq) s)::text;
END $f$;
