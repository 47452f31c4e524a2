import type { Recovered } from '../contract/store.ts'
import { LOST } from '../shared/lost.ts'
import { advance } from './advance.ts'
import { returnPermits } from './buckets.ts'
import { column, columns, numbers, numbersOrNull, texts } from '../shared/columns.ts'
import { type Context, queueName } from './context.ts'
import { withFailure } from './history.ts'
import { rejoin } from './rejoin.ts'
import { isEnd, STATE, stateName } from '../shared/state.ts'
import type { Instant } from '../../jobs/series.ts'
import { readNow } from '../shared/reading.ts'
import { expireWorkers } from '../shared/workers.ts'
import { accessOf } from './shared-sql.ts'
import { dropViewsOfTheGone } from './views.ts'

// A machine marks steps that it has waited for.
const STEP = `CASE (SELECT f.kind FROM flows f WHERE f.seq = jobs.flow) WHEN 'machine' THEN rtrim(step, '*') ELSE step END`
const RECOVERED = columns({
  ...numbers('seq', 'queue', 'state', 'attempt', 'lane', 'priority'),
  ...texts('id', 'task', 'input'),
  ...numbersOrNull('expires', 'flow'),
  permits: column<string | null>(),
  step: column<string | null>(STEP),
})

const AT_ONCE = 1000
// Two queries, since one with an OR would read every job.
const LEASE_OVER = `SELECT seq FROM jobs WHERE state = ${STATE.active} AND due <= ? ORDER BY due LIMIT ${AT_ONCE}`
const OF_THE_DEAD = `SELECT seq FROM jobs WHERE state = ${STATE.active} AND due > ? AND worker IN (SELECT value FROM json_each(?)) LIMIT ${AT_ONCE}`
// The error of a flow tells in which step it was lost.
const OF_STEP = `CASE WHEN step IS NULL THEN ?4 ELSE json_set(?4,
    '$.message', replace(?4 ->> '$.message', ' its lease.', ' its lease in the step ' || ${STEP} || '.'),
    '$.details', json_object('step', ${STEP}, 'attempt', attempt)) END`
const RECOVER = `UPDATE jobs SET worker = NULL, since = ?1,
    state = CASE WHEN cancelling THEN ${STATE.cancelled} WHEN attempt >= max_attempts THEN ${STATE.discarded} ELSE ${STATE.available} END,
    due = CASE WHEN cancelling THEN ?2 WHEN attempt >= max_attempts THEN ?3 END,
    finished = CASE WHEN cancelling OR attempt >= max_attempts THEN ?1 END,
    error = CASE WHEN attempt >= max_attempts AND NOT cancelling THEN ${OF_STEP} ELSE error END,
    errors = CASE WHEN cancelling THEN errors ELSE ${withFailure('?4', '?1')} END
  WHERE seq = ?5 RETURNING ${RECOVERED.list}`

/** Takes back the jobs of dead workers, and those whose lease ran out; a lost run counts as an attempt. */
export function recover(context: Context): Recovered[] {
  const instant = context.clock.read()
  const { nowUs } = instant
  const dead = readNow(expireWorkers(accessOf(context)))
  const lost = context.db.all<[number]>(LEASE_OVER, nowUs)
  if (dead.length > 0) lost.push(...context.db.all<[number]>(OF_THE_DEAD, nowUs, JSON.stringify(dead)))
  return lost.map(([seq]) => takeBack(context, seq, instant))
}

function takeBack(context: Context, job: number, instant: Instant): Recovered {
  const { nowUs } = instant
  const { cancelledUs, discardedUs } = context.retention
  const row = context.db.get(RECOVER, nowUs, nowUs + cancelledUs, nowUs + discardedUs, LOST, job)
  const { seq, id, task, queue, input, state, attempt, permits, lane, priority, expires, flow, step } = RECOVERED.read(
    row as readonly unknown[],
  )
  if (permits !== null) returnPermits(context, permits, nowUs)
  if (state === STATE.available) rejoin(context, { seq, lane, priority, expires }, instant)
  const news = flow !== null && isEnd(state) ? advance(context, [seq], instant).get(flow) : undefined
  return {
    id,
    task,
    queue: queueName(context, queue),
    input,
    attempt,
    state: stateName(state),
    step,
    ...(news && { flow: news }),
  }
}

/**
 * Repairs instants after a reboot of the host. No worker of the last boot lives, and the clock may have gone back, so
 * that stored instants are too late. Leases end now, and every wait list is evaluated again. A retry waits for its
 * whole delay at most, a series of even distances for one of them.
 */
export function afterReboot(context: Context): void {
  const nowUs = context.clock.nowUs()
  context.db.run('DELETE FROM workers')
  dropViewsOfTheGone(context, nowUs)
  context.db.run(`UPDATE jobs SET due = ? WHERE state = ${STATE.active} AND due > ?`, nowUs, nowUs)
  context.db.run(
    `UPDATE jobs SET due = due - (since - ?1), since = ?1 WHERE state = ${STATE.retryable} AND since > ?1`,
    nowUs,
  )
  context.db.run('UPDATE buckets SET wake_at = ? WHERE wake_at > ?', nowUs, nowUs)
  context.db.run(
    `UPDATE schedules SET next_at = next_at - (next_at - ?1) / (spec ->> '$.recurrence.everyUs') * (spec ->> '$.recurrence.everyUs')
     WHERE wall = 0 AND CASE WHEN json_valid(spec) THEN next_at - ?1 > (spec ->> '$.recurrence.everyUs') END`,
    nowUs,
  )
  context.db.run('UPDATE lanes SET turn = ? WHERE turn > ?', nowUs, nowUs)
}
