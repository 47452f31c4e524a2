import type { Clock } from '../../base/clock.ts'
import type { Statements } from '../../database/postgres.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { StartedWorkflow } from '../contract/workflows.ts'
import { readAsync } from '../shared/reading.ts'
import { startWorkflows } from '../shared/workflows/start.ts'
import { Batch } from './batch.ts'
import type { Context } from './context.ts'
import { recordQueuesOf } from './queues.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import { accessOf } from './shared-sql.ts'
import type { Notifier } from './watch.ts'

/**
 * Stores flows that are started together in one transaction. Flows that an earlier try stored are not stored twice,
 * even if its answer was lost.
 */
export function batchStarts(context: Context, clock: Clock): Batch<NewWorkflow, StartedWorkflow> {
  return new Batch((flows) =>
    whenReachable(
      clock,
      async () => {
        const start = (db: Statements): Promise<readonly StartedWorkflow[]> =>
          readAsync(startWorkflows(accessOf(context, db), flows))
        const started = await context.db.transaction(start)
        await context.db.session((db) => recordQueuesOf(context, db))
        return [...started]
      },
      READ_GIVE_UP_MS,
    ),
  )
}

/** Stores flows in the caller's transaction: other processes see them after its commit, and are notified then. */
export async function startWithin(
  context: Context,
  notifier: Notifier,
  db: Statements,
  flows: readonly NewWorkflow[],
): Promise<readonly StartedWorkflow[]> {
  const started = await readAsync(startWorkflows(accessOf(context, db), flows))
  await notifier.notifyWithin(db)
  return started
}
