import type { Statements } from '../../database/postgres.ts'
import { callbackOf, type FlowKind, isWorkflow } from '../../jobs/flow.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { WrittenRow } from './claimed.ts'
import type { Context } from './context.ts'
import { MEMORY, memoryOf } from './flow-memory.ts'
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
  ...memory: unknown[],
]

const MEMBERS = ['r_seq', 'r_flow', 'r_node', 'r_total', 'r_results', 'r_kind', 'r_step', 'r_item', 'r_moves']
const RUNS = `SELECT ${MEMBERS.map((name) => `r.${name}`).join(', ')}, ${MEMORY.split(', ')
  .map((name) => `m.${name}`)
  .join(', ')}
  FROM sluice.flow_runs($1::bigint[]) r LEFT JOIN sluice.flow_memories($2::bigint[], true) m ON m.r_job = r.r_seq`

/**
 * Adds the results of parents to started jobs of flows, and its memory to a main job that starts now. It reads after the
 * claim is written, so that no other claim waits meanwhile: results never change, and a flow is kept while one of its
 * jobs runs.
 */
export async function withResults(
  context: Context,
  db: Statements,
  written: readonly WrittenRow[],
  jobs: readonly GrantedJob[],
  nowUs: number,
): Promise<readonly GrantedJob[]> {
  const seqs = written.filter((row) => row[15] !== null && row[13] === STATE.active).map(([seq]) => seq)
  if (seqs.length === 0) return jobs
  // What happens until a start that is granted ahead belongs to its memory.
  const starting = jobs.filter(({ startedUs }) => startedUs <= nowUs).map(({ seq }) => seq)
  const rows = await db.all<Row>(RUNS, seqs, starting)
  const runs = new Map(
    rows.map((row): [number, Pick<GrantedJob, 'flow' | 'memory'>] => {
      const [seq, id, node, total, results, kind, step, item, moves, ...of] = row
      if (!isWorkflow(kind)) {
        const parentResults = results === null ? null : (JSON.parse(results) as (string | null)[])
        return [seq, { flow: { id, node, callback: callbackOf(node, total), parentResults } }]
      }
      const memory = memoryOf(context, of)
      const flow = { id, node, callback: null, parentResults: [], workflow: { kind, step, item, moves } }
      return [seq, memory ? { flow, memory } : { flow }]
    }),
  )
  return jobs.map((job) => {
    const run = runs.get(job.seq)
    return run ? { ...job, ...run } : job
  })
}
