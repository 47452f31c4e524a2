import type { FlowMove } from '../../../jobs/workflow.ts'
import { DEADLINE_STEP } from '../../../jobs/workflow.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, all, now, run } from '../sql.ts'
import { LIVE_STATES, STATE } from '../state.ts'
import { storedFlowState, STOPPED } from '../stored-flows.ts'
import { askToEnd, endFlows, endWaiting } from './end-flows.ts'
import { type FlowRow, type FlowRows, lockFlows } from './flow-rows.ts'

const SIDES = `SELECT seq, state, step FROM sluice.jobs WHERE flow = $1 AND node > 0 AND state IN (${LIVE_STATES}) ORDER BY seq FOR UPDATE`
const CHILDREN = `SELECT seq FROM sluice.flows WHERE parent = $1 AND parent_step = ANY ($2::text[]) AND state = ${storedFlowState('running')} ORDER BY seq`
// The end of a dropped child ends no step.
const DETACH = 'UPDATE sluice.flows SET parent = NULL WHERE seq = ANY ($1::bigint[])'

/**
 * Cancels the open side jobs and children of a flow's steps, or all side jobs if it begins again. Active jobs are asked
 * to end, and count as open until then.
 */
export function* dropSides(
  access: FlowAccess,
  flow: FlowRow,
  flows: FlowRows,
  { drop, again }: Pick<FlowMove, 'drop' | 'again'>,
): Reading<void> {
  const { db } = access
  const rows = yield* all<[seq: number, state: number, step: string | null]>(db, SIDES, flow.seq)
  const dropped = rows.filter(([, , step]) => step !== DEADLINE_STEP && (again !== null || drop.includes(step ?? '')))
  const active = dropped.filter(([, state]) => state === STATE.active).map(([seq]) => seq)
  const waiting = dropped.filter(([, state]) => state !== STATE.active).map(([seq]) => seq)
  yield* askToEnd(access, active)
  if (waiting.length > 0) yield* endWaiting(access, waiting, 'cancelled', STOPPED)
  flow.open = Math.max(0, flow.open - waiting.length)
  flow.cancelled += waiting.length
  if (drop.length === 0) return
  const children = (yield* all<[number]>(db, CHILDREN, flow.seq, drop)).map(([seq]) => seq)
  if (children.length === 0) return
  yield* run(db, DETACH, children)
  yield* lockFlows(access, children, flows)
  flow.open = Math.max(0, flow.open - children.length)
  const { nowUs } = yield* now(access)
  const end = { state: 'cancelled', error: STOPPED, main: 'cancelled' } as const
  yield* endFlows(
    access,
    flows,
    new Map(children.flatMap((seq) => (flows.has(seq) ? [[flows.get(seq) as FlowRow, end] as const] : []))),
    nowUs,
  )
}
