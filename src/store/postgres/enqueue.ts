import type { Clock } from '../../base/clock.ts'
import type { Statements } from '../../database/statements.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { Enqueued } from '../contract/store.ts'
import { ClaimCarrier } from './claim-carrier.ts'
import type { Context } from './context.ts'
import { ageingText, jobsText, STORED, storeJobs, valuesOf } from './job-columns.ts'
import { currentLimits } from './limit-timelines.ts'
import { autocommit } from './retry-connection.ts'
import type { Notifier } from './watch.ts'

/**
 * Writes simultaneous enqueues in one statement, which a claim may join. Jobs that an earlier try stored are not stored
 * twice, even if its answer was lost.
 */
export function batchEnqueues(context: Context, clock: Clock, notifier: Notifier): ClaimCarrier<NewJob, Enqueued> {
  return new ClaimCarrier(context, clock, notifier, {
    jobOf: (job) => job,
    areInserted: (jobs) => jobs.every(({ unique }) => unique === null),
    isPlain,
    insert: storeJobs,
    parameters: STORED,
    valuesOf: (jobs) => valuesOf(context, jobs),
    created: ({ id }) => ({ kind: 'created', id }),
    write: (db, jobs, again) => (again ? enqueueAgain : enqueueAutocommit)(context, db, jobs),
  })
}

/** Without limits, times and keys: such a job may start at once, and storing it locks nothing. */
export function isPlain({ delayUs, expiresAtMs, fairKey, occurrence, runAtMs, terms, unique, uses }: NewJob): boolean {
  const isTimed = runAtMs !== null || delayUs !== undefined || expiresAtMs !== null
  return uses.length === 0 && !isTimed && unique === null && !terms && !occurrence && (fairKey ?? null) === null
}

/** Stores jobs in the caller's transaction: other processes see them after its commit, and are notified then. */
export async function enqueueWithin(
  context: Context,
  notifier: Notifier,
  db: Statements,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  await currentLimits(context, db)
  const answers = await enqueue(context, db, jobs)
  await notifier.notifyWithin(db)
  return answers
}

/**
 * Stores jobs in one statement, all or none. It only inserts: it locks no lane, no bucket and, without unique keys, no
 * existing row.
 */
export async function enqueue(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  if (jobs.length === 0) return []
  for (const { queue } of jobs) context.queues.met(queue)
  if (jobs.every((job) => job.unique === null)) {
    await db.all(`SELECT ${storeJobs()}`, ...valuesOf(context, jobs))
    return jobs.map(({ id }) => ({ kind: 'created', id }))
  }
  const answers = await db.all<[Enqueued['kind'], string]>(
    'SELECT kind, id FROM sluice.enqueue_unique($1::json, $2::bigint), sluice.check_ageing($3)',
    jobsText(context, jobs),
    context.retention.cancelledUs,
    ageingText(context),
  )
  return answers.map(([kind, id]) => ({ kind, id }))
}

/** Stores jobs outside a transaction, on a connection that stays usable after an error. */
function enqueueAutocommit(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  return autocommit(context, db, () => enqueue(context, db, jobs))
}

/** The same after an earlier try whose answer was lost: jobs that it stored are recognised by their ids. */
async function enqueueAgain(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  const rows = await db.all<[string]>(
    'SELECT id FROM sluice.jobs WHERE id = ANY ($1::uuid[])',
    jobs.map(({ id }) => id),
  )
  const stored = new Set(rows.map(([id]) => id))
  const answers = await enqueueAutocommit(
    context,
    db,
    jobs.filter(({ id }) => !stored.has(id)),
  )
  let at = 0
  return jobs.map(({ id }) => (stored.has(id) ? { kind: 'created', id } : (answers[at++] as Enqueued)))
}
