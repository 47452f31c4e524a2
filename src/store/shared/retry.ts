import type { JobState } from '../../jobs/job-state.ts'
import { columns, numbers, numbersOrNull, textsOrNull } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, get, isUuid, now, run } from './sql.ts'
import { STATE, stateName } from './state.ts'
import { retryFlow } from './workflows/retry.ts'

const DISCARDED = columns({ ...numbers('seq'), ...numbersOrNull('flow', 'node') })
const FIND = `SELECT ${DISCARDED.list} FROM sluice.jobs WHERE id = $1::uuid AND state = ${STATE.discarded} FOR UPDATE`
/** A main job has the id of its flow: its retry is one of the flow. A side job of it is not retried. */
const OF_WORKFLOW = `SELECT 1 FROM sluice.jobs j JOIN sluice.flows f ON f.seq = j.flow WHERE j.id = $1::uuid AND f.kind IN ('workflow', 'machine', 'graph')`
/** Once a flow's retention is over, parts of it may be gone. */
const MAY_REOPEN = 'SELECT 1 FROM sluice.flows WHERE seq = $1 AND (due IS NULL OR due > $2) FOR UPDATE'
const FRESH = `UPDATE sluice.jobs SET attempt = 0, pushed_back = 0, cancelling = false, expires = NULL, finished = NULL,
  error = NULL WHERE seq = $1`
const PENDING = columns({ ...numbers('seq', 'state'), ...textsOrNull('plan', 'extra') })
const SCHEDULE = `UPDATE sluice.jobs SET state = ${STATE.scheduled}, since = $2, due = $3 WHERE seq = $1`

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export function* retry(access: Access, id: string): Reading<boolean> {
  const { db } = access
  if (isUuid(id) && (yield* get(db, OF_WORKFLOW, id))) return (yield* retryFlow(access, id, null)) === 'retried'
  const job = isUuid(id) ? DISCARDED.read(yield* get(db, FIND, id)) : undefined
  if (!job) return false
  const { seq, flow, node } = job
  const instant = yield* now(access)
  if (flow !== null && !(yield* get(db, MAY_REOPEN, flow, instant.nowUs))) return false
  yield* run(db, FRESH, seq)
  yield* ask(() => access.rejoin(seq, instant))
  if (flow !== null && node !== null) yield* ask(() => access.reopen(seq, flow, node))
  return true
}

/**
 * Moves a pending job to its lane, or schedules it. Returns its state before; null: it does not exist, or waits for
 * others of its flow.
 */
export function* activate(access: Access, id: string, runAtMs: number | null): Reading<JobState | null> {
  const { db } = access
  const find = `SELECT ${PENDING.list} FROM sluice.jobs WHERE id = $1::uuid FOR UPDATE`
  const job = isUuid(id) ? PENDING.read(yield* get(db, find, id)) : undefined
  if (!job) return null
  const { seq, state, plan, extra } = job
  if (state !== STATE.pending) return stateName(state)
  if (plan !== null) return null
  const instant = yield* now(access)
  const { nowUs, wallUs } = instant
  const noted = JSON.stringify({ ...(JSON.parse(extra ?? '{}') as object), activatedUs: nowUs })
  yield* run(db, 'UPDATE sluice.jobs SET extra = $2 WHERE seq = $1', seq, noted)
  const runAtUs = runAtMs === null ? 0 : Math.round(runAtMs * 1000)
  if (runAtUs > wallUs) yield* run(db, SCHEDULE, seq, nowUs, runAtUs)
  else yield* ask(() => access.rejoin(seq, instant))
  return 'pending'
}
