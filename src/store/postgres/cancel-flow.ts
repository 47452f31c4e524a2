import type { Statements } from '../../database/postgres.ts'
import type { FlowKind } from '../../jobs/flow.ts'
import type { FlowCancelAnswer } from '../contract/flows.ts'
import { flowStateName, storedFlowState } from '../shared/stored-flows.ts'
import { moved } from './advance.ts'
import { Again, announce, type Place } from './cancel.ts'
import { type Context, readClock } from './context.ts'
import { isUuid } from '../shared/sql.ts'
import { STATE } from '../shared/state.ts'

type FlowRow = [kind: FlowKind, name: string | null, state: number, total: number]
type Row = [id: string, task: string, queue: string, node: number]

/** Waiting and running jobs, which come before their flow in the order of locks. */
const AT_WORK = `flow = $1 AND state IN (${STATE.scheduled}, ${STATE.available}, ${STATE.active}, ${STATE.retryable})`
const CANCEL = `UPDATE sluice.jobs SET state = ${STATE.cancelled}, finished = $2, due = NULL
  WHERE flow = $1 AND state IN (${STATE.scheduled}, ${STATE.available}, ${STATE.retryable}, ${STATE.pending}) RETURNING id, task, queue, node`
const END = `UPDATE sluice.flows SET state = ${storedFlowState('cancelled')}, cancelled = cancelled + $2, finished = $3, due = $4 WHERE seq = $1`

/** Ends a flow: waiting jobs are cancelled, active ones are asked to end. */
export async function cancelFlow(context: Context, db: Statements, id: string): Promise<FlowCancelAnswer> {
  const found = isUuid(id) ? await db.get<[number]>('SELECT seq FROM sluice.flows WHERE id = $1::uuid', id) : undefined
  if (!found) return { kind: 'missing' }
  const [seq] = found
  const flow = await lockAll(db, seq)
  if (!flow) return { kind: 'missing' }
  const [kind, name, state, total] = flow
  if (state !== storedFlowState('running')) return { kind: 'finished', state: flowStateName(state) }
  const { nowUs } = await readClock(context, db)
  const lanes = await db.all<[...Place]>(
    `SELECT DISTINCT queue, lane, uses, fair FROM sluice.jobs WHERE flow = $1 AND state = ${STATE.available} AND uses IS NOT NULL`,
    seq,
  )
  const rows = await db.all<Row>(CANCEL, seq, nowUs)
  for (const place of lanes) await announce(db, place)
  const asked = await db.all<[string]>(
    `UPDATE sluice.jobs SET cancelling = true WHERE flow = $1 AND state = ${STATE.active} RETURNING id`,
    seq,
  )
  const nodes = rows.filter(([, , , node]) => node < total).length
  await db.run(END, seq, nodes, nowUs, nowUs + context.retention.cancelledUs)
  const cancelled = rows.map(moved)
  const news = { id, kind, name, ended: 'cancelled', activated: [], cancelled, discarded: [] } as const
  return { kind: 'cancelled', news, requested: asked.map(([job]) => job) }
}

/**
 * Locks the waiting and running jobs of a flow, then the flow. Jobs that started meanwhile are locked without waiting,
 * or the transaction starts again.
 */
async function lockAll(db: Statements, seq: number): Promise<FlowRow | undefined> {
  await db.run(`SELECT 1 FROM sluice.jobs WHERE ${AT_WORK} ORDER BY seq FOR UPDATE`, seq)
  const flow = await db.get<FlowRow>('SELECT kind, name, state, total FROM sluice.flows WHERE seq = $1 FOR UPDATE', seq)
  const had = await db.run(`SELECT 1 FROM sluice.jobs WHERE ${AT_WORK} FOR UPDATE SKIP LOCKED`, seq)
  const [left] = (await db.get<[number]>(`SELECT count(*) FROM sluice.jobs WHERE ${AT_WORK}`, seq)) as [number]
  if (left > had) throw new Again()
  return flow
}
