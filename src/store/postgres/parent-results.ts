import type { Statements } from '../../database/postgres.ts'
import { callbackOf, type FlowKind, type FlowRun, isWorkflow } from '../../jobs/flow.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { WrittenRow } from './claimed.ts'
import { STATE } from '../shared/state.ts'

type Row = [
  seq: number,
  flow: string,
  node: number,
  total: number,
  results: string | null,
  kind: FlowKind,
  step: string | null,
  item: number | null,
  moves: number,
]

const RUNS =
  'SELECT r_seq, r_flow, r_node, r_total, r_results, r_kind, r_step, r_item, r_moves FROM sluice.flow_runs($1::bigint[])'

/**
 * Adds the results of parents to started jobs of flows. It reads after the claim is written, so that no other claim
 * waits meanwhile: results never change, and a flow is kept while one of its jobs runs.
 */
export async function withResults(
  db: Statements,
  written: readonly WrittenRow[],
  jobs: readonly GrantedJob[],
): Promise<readonly GrantedJob[]> {
  const seqs = written.filter((row) => row[15] !== null && row[13] === STATE.active).map(([seq]) => seq)
  if (seqs.length === 0) return jobs
  const rows = await db.all<Row>(RUNS, seqs)
  const runs = new Map(
    rows.map(([seq, id, node, total, results, kind, step, item, moves]): [number, FlowRun] => {
      if (isWorkflow(kind))
        return [seq, { id, node, callback: null, parentResults: [], workflow: { kind, step, item, moves } }]
      const parentResults = results === null ? null : (JSON.parse(results) as (string | null)[])
      return [seq, { id, node, callback: callbackOf(node, total), parentResults }]
    }),
  )
  return jobs.map((job) => {
    const flow = runs.get(job.seq)
    return flow ? { ...job, flow } : job
  })
}
