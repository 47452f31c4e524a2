import type { RetimeAnswer } from '../contract/change-jobs.ts'
import { columns, numbers, textsOrNull } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, get, isUuid, now, run } from './sql.ts'
import { STATE, stateName } from './state.ts'

const JOB = columns({ ...numbers('seq', 'state'), ...textsOrNull('awaits') })
const FIND = `SELECT ${JOB.list} FROM sluice.jobs WHERE id = $1::uuid FOR UPDATE`
const SCHEDULE = `UPDATE sluice.jobs SET state = ${STATE.scheduled}, since = $2, due = $3, booked = NULL WHERE seq = $1`

/** Lets a job that waits for its time, or for its turn, start at another time: at once, or by the wall clock. */
export function* retime(access: Access, id: string, runAtMs: number | null): Reading<RetimeAnswer> {
  const job = isUuid(id) ? JOB.read(yield* get(access.db, FIND, id)) : undefined
  if (!job) return { kind: 'missing' }
  const { seq, state, awaits } = job
  const waits = state === STATE.scheduled || state === STATE.retryable || state === STATE.available
  // A parked job of a flow waits for a signal, or for the time that its step has named.
  if (!waits || awaits !== null) return { kind: 'refused', state: stateName(state) }
  const instant = yield* now(access)
  const runAtUs = runAtMs === null ? 0 : Math.round(runAtMs * 1000)
  if (runAtUs > instant.wallUs) {
    yield* run(access.db, SCHEDULE, seq, instant.nowUs, runAtUs)
    if (state === STATE.available) yield* ask(() => access.leaveLanes([seq], instant.nowUs))
  } else if (state !== STATE.available) yield* ask(() => access.rejoin(seq, instant))
  return { kind: 'retimed' }
}
