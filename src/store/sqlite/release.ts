import { refund } from '../../policy/limits/bucket.ts'
import type { Unstarted } from '../contract/store.ts'
import { advance } from './advance.ts'
import { findBucket, returnPermits, saveBucket, wakeLine } from './buckets.ts'
import { cancelWaiting } from './cancel-waiting.ts'
import type { Context } from './context.ts'
import { endOverdue } from './override.ts'
import { nameFor } from './own.ts'
import { rejoin } from './rejoin.ts'
import { STATE } from '../shared/state.ts'

const RELEASE = `UPDATE jobs SET state = ${STATE.available}, attempt = attempt - 1, worker = NULL, started = NULL, due = NULL
  WHERE seq = ? AND attempt = ? AND worker = ? AND state = ${STATE.active} RETURNING lane, priority, permits, cancelling, expires, flow`

type Row = [
  lane: number,
  priority: number,
  permits: string | null,
  cancelling: number,
  expires: number | null,
  flow: number | null,
]

/** Gives back claimed jobs that never started: their units, their permits, their attempt and their place. */
export function release(context: Context, worker: number, runs: readonly Unstarted[]): void {
  endOverdue(context)
  const instant = context.clock.read()
  const { nowUs } = instant
  for (const { seq, attempt, uses, startedUs } of runs) {
    const row = context.db.get<Row>(RELEASE, seq, attempt, worker)
    if (!row) continue
    const [lane, priority, permits, cancelling, expires, flow] = row
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
      if (flow !== null) advance(context, [seq], instant)
      continue
    }
    rejoin(context, { seq, lane, priority, expires }, instant)
  }
}
