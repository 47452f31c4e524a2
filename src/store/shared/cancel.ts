import type { CancelAnswer } from '../contract/store.ts'
import { columns, numbers, numbersOrNull } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, get, isUuid, now, run } from './sql.ts'
import { isEnd, STATE, stateName } from './state.ts'

const JOB = columns({ ...numbers('seq', 'state'), ...numbersOrNull('flow') })
const FIND = `SELECT ${JOB.list} FROM sluice.jobs WHERE id = $1::uuid FOR UPDATE`
const FLOW = `SELECT flow FROM sluice.jobs WHERE id = $1::uuid AND state = ${STATE.pending} AND flow IS NOT NULL`
const STARTED = `SELECT 1 FROM sluice.jobs WHERE id = $1::uuid AND state <> ${STATE.pending}`
const END = `UPDATE sluice.jobs SET state = ${STATE.cancelled}, finished = $2, due = $3 WHERE seq = $1`

/** A row changed between its read and its lock: the transaction starts again, as after a deadlock. */
export class Again extends Error {
  readonly code = '40001'

  constructor() {
    super('A flow changed again and again while one of its jobs, or all of them, were to be cancelled. Try again.')
  }
}

/** Ends a waiting job at once; an active one is marked, and ends with its handler. */
export function* cancel(access: Access, id: string): Reading<CancelAnswer> {
  const { db } = access
  if (!isUuid(id)) return { kind: 'missing' }
  const held = yield* lockFlowOfPending(access, id)
  const job = JOB.read(yield* get(db, FIND, id))
  if (!job) return { kind: 'missing' }
  const { seq, state, flow } = job
  if (flow !== null && held !== (state === STATE.pending)) throw new Again()
  if (isEnd(state)) return { kind: 'finished', state: stateName(state) }
  if (state === STATE.active) {
    yield* run(db, 'UPDATE sluice.jobs SET cancelling = true WHERE seq = $1', seq)
    return { kind: 'requested' }
  }
  const instant = yield* now(access)
  yield* run(db, END, seq, instant.nowUs, instant.nowUs + access.retention.cancelledUs)
  if (state === STATE.available) yield* ask(() => access.leaveLanes([seq], instant.nowUs))
  const news = flow === null ? undefined : yield* ask(() => access.endInFlow(seq, flow, instant))
  return { kind: 'cancelled', ...(news && { flow: news }) }
}

/** Locks the flow of a pending job, which comes before the job in the order of locks. */
function* lockFlowOfPending({ db }: Access, id: string): Reading<boolean> {
  const [flow] = (yield* get<[number]>(db, FLOW, id)) ?? []
  if (flow === undefined) return false
  yield* get(db, 'SELECT 1 FROM sluice.flows WHERE seq = $1 FOR UPDATE', flow)
  // The job may have started by now. Its holder may then wait for this flow.
  if (yield* get(db, STARTED, id)) throw new Again()
  return true
}
