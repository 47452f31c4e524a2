import { STOPPED } from '../shared/stored-flows.ts'
import { loadFlow, saveFlow } from './advance.ts'
import type { Context } from './context.ts'
import { STATE } from '../shared/state.ts'

const STOPPED_BEHIND = `WITH RECURSIVE behind (node) AS (SELECT node FROM flow_edges WHERE flow = ?1 AND before = ?2
    UNION SELECT e.node FROM behind had CROSS JOIN flow_edges e ON e.flow = ?1 AND e.before = had.node)
  SELECT j.node FROM behind had CROSS JOIN jobs j ON j.flow = ?1 AND j.node = had.node WHERE j.state = ${STATE.cancelled} AND j.error = ?3`
const WAITS = `SELECT count(*), count(*) FILTER (WHERE j.state IN (${STATE.cancelled}, ${STATE.discarded}))
  FROM flow_edges e CROSS JOIN jobs j ON j.flow = e.flow AND j.node = e.before
  WHERE e.flow = ? AND e.node = ? AND j.state <> ${STATE.completed}`
const REVIVE = `UPDATE jobs SET state = ${STATE.pending}, waits = ?, error = NULL, finished = NULL WHERE flow = ? AND node = ?`
const REVIVE_CALLBACKS = `UPDATE jobs SET state = ${STATE.pending}, error = NULL, finished = NULL
  WHERE flow = ? AND node >= ? AND state = ${STATE.cancelled} AND error = ?`

/**
 * Reopens the flow of a discarded node that a caller retries: the jobs that its failure cancelled wait again. Callbacks
 * that ran do not run again.
 */
export function reopen(context: Context, seq: number, node: number): void {
  const flow = loadFlow(context, seq)
  if (!flow || node >= flow.total) return
  flow.discarded--
  if (flow.state !== 'cancelled') {
    if (flow.edges > 0) flow.cancelled -= revive(context, seq, node)
    if (flow.state !== 'running') context.db.run(REVIVE_CALLBACKS, seq, flow.total, STOPPED)
    flow.state = 'running'
    flow.finishedUs = null
    flow.dueUs = null
  }
  saveFlow(context, flow)
}

/** In the order of nodes, in which each comes after all that it waits for. */
function revive(context: Context, flow: number, from: number): number {
  let revived = 0
  const nodes = context.db.all<[number]>(STOPPED_BEHIND, flow, from, STOPPED).sort(([a], [b]) => a - b)
  for (const [node] of nodes) {
    const [waits, never] = context.db.get<[number, number]>(WAITS, flow, node) as [number, number]
    if (never > 0) continue
    context.db.run(REVIVE, waits, flow, node)
    revived++
  }
  return revived
}
