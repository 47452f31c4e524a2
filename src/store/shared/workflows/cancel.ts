import type { FlowCancelAnswer } from '../../contract/flows.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, now } from '../sql.ts'
import { lockForEnds } from './end-flows.ts'
import type { FlowRow } from './flow-rows.ts'
import { applyEnds } from './tell.ts'

/** Ends a workflow flow and all its attached children: waiting jobs are cancelled, active ones are asked to end. */
export function* cancelWorkflow(access: FlowAccess, seq: number): Reading<FlowCancelAnswer> {
  const flows = yield* lockForEnds(access, [seq], [])
  const flow = flows.get(seq)
  if (!flow) return { kind: 'missing' }
  if (flow.state !== 'running') return { kind: 'finished', state: flow.state }
  const { nowUs } = yield* now(access)
  const end = { state: 'cancelled', error: null, main: 'cancelled' } as const
  const { news, asked } = yield* applyEnds(access, flows, new Map<FlowRow, typeof end>([[flow, end]]), [], nowUs)
  const own = news.get(seq)
  return own ? { kind: 'cancelled', news: own, requested: asked } : { kind: 'missing' }
}
