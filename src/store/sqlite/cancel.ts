import type { CancelAnswer } from '../contract/store.ts'
import { advance } from './advance.ts'
import { cancelWaiting } from './cancel-waiting.ts'
import type { Context } from './context.ts'
import { column, columns, numbers } from '../shared/columns.ts'
import { isEnd, STATE, stateName } from '../shared/state.ts'

const JOB = columns({ ...numbers('seq', 'state', 'lane'), flow: column<number | null>() })

/** Ends a waiting job at once; an active one is marked, and ends with its handler. */
export function cancel(context: Context, id: string): CancelAnswer {
  const row = JOB.read(context.db.get(`SELECT ${JOB.list} FROM jobs WHERE id = ?`, id))
  if (!row) return { kind: 'missing' }
  const { seq, state, lane, flow } = row
  if (isEnd(state)) return { kind: 'finished', state: stateName(state) }
  if (state === STATE.active) {
    context.db.run('UPDATE jobs SET cancelling = 1 WHERE seq = ?', seq)
    return { kind: 'requested' }
  }
  const instant = context.clock.read()
  cancelWaiting(context, { seq, state, lane }, instant.nowUs)
  const news = flow === null ? undefined : advance(context, [seq], instant).get(flow)
  return { kind: 'cancelled', ...(news && { flow: news }) }
}
