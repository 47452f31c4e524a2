import type { CancelAnswer } from '../contract/store.ts'
import { advance } from './advance.ts'
import { cancelWaiting } from './cancel-waiting.ts'
import type { Context } from './context.ts'
import { STATE, stateName } from '../shared/state.ts'

/** Ends a waiting job at once; an active one is marked, and ends with its handler. */
export function cancel(context: Context, id: string): CancelAnswer {
  const row = context.db.get<[number, number, number, number | null]>(
    'SELECT seq, state, lane, flow FROM jobs WHERE id = ?',
    id,
  )
  if (!row) return { kind: 'missing' }
  const [seq, state, lane, flow] = row
  if (state === STATE.completed || state === STATE.cancelled || state === STATE.discarded)
    return { kind: 'finished', state: stateName(state) }
  if (state === STATE.active) {
    context.db.run('UPDATE jobs SET cancelling = 1 WHERE seq = ?', seq)
    return { kind: 'requested' }
  }
  const instant = context.clock.read()
  cancelWaiting(context, { seq, state, lane }, instant.nowUs)
  const news = flow === null ? undefined : advance(context, [seq], instant).get(flow)
  return { kind: 'cancelled', ...(news && { flow: news }) }
}
