import type { Access } from '../shared/sql.ts'
import { type Context, queueName } from './context.ts'
import { readName } from './own.ts'
import { sharedSql } from './portable-sql.ts'
import { leave } from './workers.ts'

/** The access of shared logic to this store. */
export function accessOf(context: Context): Access {
  const { db, clock, retention } = context
  return {
    db: sharedSql(db),
    retention,
    laneKey: 'id',
    now: () => clock.read(),
    queueName: (stored) => queueName(context, stored as number),
    limitName: (stored) => readName(stored).limit,
    recordQueues: () => undefined,
    leave: (worker) => leave(context, worker),
  }
}
