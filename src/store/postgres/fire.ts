import type { Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import { fire as fireDue } from '../shared/fire.ts'
import { readAsync } from '../shared/reading.ts'
import { type Context, readClock } from './context.ts'
import { enqueue } from './enqueue.ts'
import { currentLimits } from './limit-timelines.ts'
import { accessOf } from './shared-sql.ts'

/** Fires due schedules: one transaction at a time may change them. */
export async function fire(context: Context, db: Statements, limit: number): Promise<readonly ScheduleNews[]> {
  return inTransaction(db, async () => {
    const shared = accessOf(context, db)
    await shared.lockSchedules()
    const instant = await readClock(context, db)
    await currentLimits(context, db)
    const access = {
      ...shared,
      instant,
      newId: context.newId,
      enqueue: (jobs: readonly NewJob[]) => enqueue(context, db, jobs),
    }
    return readAsync(fireDue(access, limit))
  })
}
