import type { FlowCancelAnswer } from '../contract/flows.ts'
import { loadFlow, moved, saveFlow } from './advance.ts'
import type { Context } from './context.ts'
import { depart } from './lanes.ts'
import { STATE } from '../shared/state.ts'

type Row = [id: string, task: string, queue: number, node: number]

const IN_LANES = `SELECT seq, lane FROM jobs WHERE flow = ? AND state = ${STATE.available}`
const CANCEL = `UPDATE jobs SET state = ${STATE.cancelled}, finished = ?2, due = NULL
  WHERE flow = ?1 AND state IN (${STATE.scheduled}, ${STATE.available}, ${STATE.retryable}, ${STATE.pending}) RETURNING id, task, queue, node`
const ASK = `UPDATE jobs SET cancelling = 1 WHERE flow = ? AND state = ${STATE.active} RETURNING id`

/** Ends a flow: waiting jobs are cancelled, active ones are asked to end. */
export function cancelFlow(context: Context, id: string): FlowCancelAnswer {
  const found = context.db.get<[number]>('SELECT seq FROM flows WHERE id = ?', id)
  const flow = found ? loadFlow(context, found[0]) : null
  if (!flow) return { kind: 'missing' }
  if (flow.state !== 'running') return { kind: 'finished', state: flow.state }
  const nowUs = context.clock.nowUs()
  const inLanes = context.db.all<[number, number]>(IN_LANES, flow.seq)
  const rows = context.db.all<Row>(CANCEL, flow.seq, nowUs)
  // Only now, so that no lane gets another of these jobs as its next head.
  for (const [seq, lane] of inLanes) depart(context, lane, seq, nowUs)
  const requested = context.db.all<[string]>(ASK, flow.seq).map(([job]) => job)
  flow.state = 'cancelled'
  flow.cancelled += rows.filter(([, , , node]) => node < flow.total).length
  flow.finishedUs = nowUs
  flow.dueUs = nowUs + context.retention.cancelledUs
  saveFlow(context, flow)
  const cancelled = rows.map((row) => moved(context, row))
  const { kind, name } = flow
  const news = { id, kind, name, ended: 'cancelled', activated: [], cancelled, discarded: [] } as const
  return { kind: 'cancelled', news, requested }
}
