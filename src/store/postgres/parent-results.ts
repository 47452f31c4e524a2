import type { Statements } from '../../database/statements.ts'
import { callbackOf, type FlowKind, isWorkflow } from '../../jobs/flow.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { WrittenRow } from './claimed.ts'
import type { Context } from './context.ts'
import { MEMORY, memoryOf } from './flow-memory.ts'
import type { ReadSet } from './read-set.ts'
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

/** The clocks of a claim. */
export type Clocks = Pick<ReadSet, 'now' | 'wall'>
type Placed = Pick<GrantedJob, 'flow' | 'memory'>
/** The place of a started job in its flow, as far as the caller knows it. */
export type PlaceOf = (job: GrantedJob, at: Clocks) => Placed | undefined

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
  at: Clocks,
  placeOf: PlaceOf = () => undefined,
): Promise<readonly GrantedJob[]> {
  const inFlows = new Set(written.filter((row) => row[15] !== null && row[13] === STATE.active).map(([seq]) => seq))
  if (inFlows.size === 0) return jobs
  const runs = new Map<number, Placed>()
  for (const job of jobs) {
    const place = inFlows.has(job.seq) ? placeOf(job, at) : undefined
    if (place) runs.set(job.seq, place)
  }
  const others = [...inFlows].filter((seq) => !runs.has(seq))
  // The memory of a start that is granted ahead also has the signals that come before it.
  const starting = jobs.filter(({ startedUs }) => startedUs <= at.now).map(({ seq }) => seq)
  if (others.length > 0)
    for (const [seq, place] of await readPlaces(context, db, others, starting)) runs.set(seq, place)
  return jobs.map((job) => {
    const run = runs.get(job.seq)
    return run ? { ...job, ...run } : job
  })
}

async function readPlaces(
  context: Context,
  db: Statements,
  seqs: readonly number[],
  starting: readonly number[],
): Promise<(readonly [seq: number, place: Placed])[]> {
  const rows = await db.all<Row>(RUNS, seqs, starting)
  return rows.map((row) => {
    const [seq, id, node, total, results, kind, step, item, moves, ...of] = row
    if (!isWorkflow(kind)) {
      const parentResults = results === null ? null : (JSON.parse(results) as (string | null)[])
      return [seq, { flow: { id, node, callback: callbackOf(node, total), parentResults } }]
    }
    const memory = memoryOf(context, of)
    const flow = { id, node, callback: null, parentResults: [], workflow: { kind, step, item, moves } }
    return [seq, memory ? { flow, memory } : { flow }]
  })
}
