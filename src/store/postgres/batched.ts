import type { Clock } from '../../base/clock.ts'
import type { NewJob, SettleResult } from '../../jobs/job.ts'
import type { Enqueued } from '../contract/store.ts'
import { Batch } from './batch.ts'
import type { Statements } from '../../database/postgres.ts'
import type { Context } from './context.ts'
import { enqueue, enqueueAgain, enqueueAutocommit } from './enqueue.ts'
import { currentLimits } from './limit-timelines.ts'
import { recordQueuesOf } from './queues.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import { settle } from './settle.ts'
import type { SettleRequest } from '../shared/settle-once.ts'
import type { Bell } from './watch.ts'

/** Settlements made together are written together; who may go on then is told so. */
export function batchSettlements(context: Context, bell: Bell): Batch<SettleRequest, SettleResult> {
  return new Batch(async (requests) => {
    const { settled, work } = await context.db.session((db) => settle(context, db, requests))
    if (work) bell.ring('work')
    bell.ring('ended')
    return settled
  })
}

/** Jobs enqueued together are written together; what an earlier try has stored whose answer was lost is not stored twice. */
export function batchEnqueues(context: Context, clock: Clock): Batch<NewJob, Enqueued> {
  return new Batch((jobs) => {
    const store = (again: boolean): Promise<Enqueued[]> =>
      context.db.session(async (db) => {
        const answers = await (again ? enqueueAgain : enqueueAutocommit)(context, db, jobs)
        await recordQueuesOf(context, db)
        return answers
      })
    return whenReachable(clock, store, READ_GIVE_UP_MS)
  })
}

/** In a transaction of the caller's: seen by others when that commits, and the bell rings then, too. */
export async function enqueueWithin(
  context: Context,
  bell: Bell,
  db: Statements,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  await currentLimits(context, db)
  const answers = await enqueue(context, db, jobs)
  await bell.ringWithin(db)
  return answers
}
