import { inTransaction, type Statements } from '../../database/postgres.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import { fireDue, nextFireUs as nextOf } from '../shared/fire.ts'
import { readAsync } from '../shared/reading.ts'
import { LIVE_STATES } from '../shared/state.ts'
import { findBucket } from './buckets.ts'
import { type Context, readClock } from './context.ts'
import { enqueue } from './enqueue.ts'
import { currentLimits } from './limit-timelines.ts'
import type { ReadSet } from './read-set.ts'
import { findAll, lockSchedules, scheduleAccess } from './schedule.ts'
import { attendedSinceUs } from './workers.ts'

/** Selects schedules whose missed occurrences may continue. */
const RELEASED = `catch_up_to IS NOT NULL AND NOT EXISTS
  (SELECT 1 FROM sluice.jobs j WHERE j.id = last_job AND j.state IN (${LIVE_STATES})) LIMIT 1`
const DUE = 'catch_up_to IS NULL AND next_at IS NOT NULL AND wall = $1 AND next_at <= $2 ORDER BY next_at LIMIT $3'

/**
 * Makes jobs of due occurrences, and advances their schedules; those beyond `limit` stay due. The first claim does it
 * for all processes: one at a time may change schedules.
 */
export async function fire(context: Context, db: Statements, limit: number): Promise<readonly ScheduleNews[]> {
  return inTransaction(db, async () => {
    await lockSchedules(db)
    const instant = await readClock(context, db)
    const limits = await currentLimits(context, db)
    const due = [
      ...(await findAll(db, RELEASED)),
      ...(await findAll(db, DUE, false, instant.nowUs, limit)),
      ...(await findAll(db, DUE, true, instant.wallUs, limit)),
    ]
    const live = `SELECT 1 FROM sluice.jobs WHERE id = $1 AND state IN (${LIVE_STATES})`
    const access = {
      ...scheduleAccess(context, db),
      instant,
      newId: context.newId,
      isLive: async (job: string) => (await db.get(live, job)) !== undefined,
      attendedSinceUs: (nowUs: number) => attendedSinceUs(db, nowUs),
      findBucket: (limit: string, key: string) => findBucket(db, limits, instant, limit, key),
      enqueue: (job: NewJob) => enqueue(context, db, [job]),
    }
    return readAsync(fireDue(access, due, limit))
  })
}

/** The next due time of all schedules on the store's clock. */
export function nextFireUs({ fire: next, now, wall }: Pick<ReadSet, 'fire' | 'now' | 'wall'>): number {
  return nextOf(...next, { nowUs: now, wallUs: wall })
}
