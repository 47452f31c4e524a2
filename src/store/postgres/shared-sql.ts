import type { Statements } from '../../database/postgres.ts'
import type { Access } from '../shared/sql.ts'
import { type Context, readClock } from './context.ts'
import { sharedQueue } from './own.ts'
import { recordQueues } from './queues.ts'
import { leave } from './workers.ts'

/** The access of shared logic to this store. */
export function accessOf(context: Context, db: Statements): Access {
  return {
    db,
    retention: context.retention,
    laneKey: 'key',
    now: () => readClock(context, db),
    queueName: (stored) => sharedQueue(stored as string),
    limitName: (stored) => stored,
    recordQueues: () => recordQueues(context, db),
    leave: (worker) => leave(context, db, worker),
  }
}
