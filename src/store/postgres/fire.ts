import { inTransaction, type Statements } from '../../database/postgres.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import { fire as fireDue, nextFireUs as nextOf } from '../shared/fire.ts'
import { readAsync } from '../shared/reading.ts'
import { LIVE_STATES } from '../shared/state.ts'
import { findBucket } from './buckets.ts'
import { type Context, readClock } from './context.ts'
import { enqueue } from './enqueue.ts'
import { currentLimits } from './limit-timelines.ts'
import type { ReadSet } from './read-set.ts'
import { accessOf } from './shared-sql.ts'

const LIVE = `SELECT 1 FROM sluice.jobs WHERE id = $1 AND state IN (${LIVE_STATES})`

/** Fires due schedules: one transaction at a time may change them. */
export async function fire(context: Context, db: Statements, limit: number): Promise<readonly ScheduleNews[]> {
  return inTransaction(db, async () => {
    const shared = accessOf(context, db)
    await shared.lockSchedules()
    const instant = await readClock(context, db)
    const limits = await currentLimits(context, db)
    const access = {
      ...shared,
      instant,
      newId: context.newId,
      isLive: async (job: string) => (await db.get(LIVE, job)) !== undefined,
      findBucket: (name: string, key: string) => findBucket(db, limits, instant, name, key),
      enqueue: (job: NewJob) => enqueue(context, db, [job]),
    }
    return readAsync(fireDue(access, limit))
  })
}

/** The next due time of all schedules on the store's clock. */
export function nextFireUs({ fire: next, now, wall }: Pick<ReadSet, 'fire' | 'now' | 'wall'>): number {
  return nextOf(...next, { nowUs: now, wallUs: wall })
}
