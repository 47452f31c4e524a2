import { refund } from '../../policy/limits/bucket.ts'
import type { CancelledRun } from '../contract/recall.ts'
import type { Unstarted } from '../contract/store.ts'
import { advance } from './advance.ts'
import { findBucket, returnPermits, saveBucket, wakeLine } from './buckets.ts'
import { cancelWaiting } from './cancel-waiting.ts'
import type { Context } from './context.ts'
import { endOverdue } from './shared-sql.ts'
import { nameFor } from './own.ts'
import { rejoin } from './rejoin.ts'
import { column, columns, numbers, numbersOrNull } from '../shared/columns.ts'
import { STATE } from '../shared/state.ts'

const RELEASED = columns({
  ...numbers('lane', 'priority', 'cancelling'),
  permits: column<string | null>(),
  ...numbersOrNull('expires', 'flow'),
})
// The claim of an occurrence removed its expiry, the end of its series, which holds for a first start alone.
const RELEASE = `UPDATE jobs SET state = ${STATE.available}, attempt = attempt - 1, worker = NULL, started = NULL, due = NULL,
    expires = CASE WHEN schedule IS NULL OR attempt > 1 OR pushed_back > 0 THEN expires
      ELSE (SELECT CAST(round(json_extract(s.spec, '$.untilMs') * 1000 - 1) AS INTEGER) FROM schedules s WHERE s.name = schedule) END
  WHERE seq = ? AND attempt = ? AND worker = ? AND state = ${STATE.active} RETURNING ${RELEASED.list}`

/** Gives back claimed jobs that never started: their units, their permits, their attempt and their place. */
export function release(context: Context, worker: number, runs: readonly Unstarted[]): CancelledRun[] {
  endOverdue(context)
  const instant = context.clock.read()
  const { nowUs } = instant
  const ended: CancelledRun[] = []
  for (const { seq, attempt, uses, startedUs } of runs) {
    const row = RELEASED.read(context.db.get(RELEASE, seq, attempt, worker))
    if (!row) continue
    const { lane, priority, permits, cancelling, expires, flow } = row
    for (const { limit, key, weight } of uses) {
      const bucket = findBucket(context, nameFor(context, limit, key, worker), key, nowUs)
      if (!bucket?.policy || weight === 0) continue
      refund(bucket.policy, bucket.state, nowUs, weight, startedUs)
      bucket.changed = true
      saveBucket(context, bucket, nowUs)
      wakeLine(context, bucket.id, nowUs)
    }
    if (permits !== null) returnPermits(context, permits, nowUs)
    if (cancelling === 1) {
      cancelWaiting(context, { seq, state: STATE.active, lane }, nowUs)
      const news = flow === null ? undefined : advance(context, [seq], instant).get(flow)
      ended.push({ seq, ...(news && { flow: news }) })
      continue
    }
    rejoin(context, { seq, lane, priority, expires }, instant)
  }
  return ended
}
