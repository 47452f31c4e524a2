import type { Clock } from '../../base/clock.ts'
import { mayPass } from '../../base/errors.ts'
import type { Statements } from '../../database/postgres.ts'
import { codeOf } from '../../database/postgres-error.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { Claim, ClaimRequest, Enqueued } from '../contract/store.ts'
import { Batch } from './batch.ts'
import { claimOpenCall, mayClaimOpen, openClaim, openTerms, type StartRow } from './claim-open.ts'
import type { Context } from './context.ts'
import { ageingText, jobsText, STORE_JOBS, STORED, valuesOf } from './job-columns.ts'
import { currentLimits } from './limit-timelines.ts'
import { recordQueuesOf } from './queues.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import type { Notifier } from './watch.ts'

/** A claim that waits for the next statement of enqueues. */
interface Passenger {
  readonly ask: () => ClaimRequest
  /** Null: nothing was claimed, and the claim is still to be made. */
  resolve(claim: Claim | null): void
  reject(error: unknown): void
}

interface Written {
  readonly answers: Enqueued[]
  readonly claim: Claim | null
}

/**
 * Stores jobs, and claims in the same statement. The claim reads `done`, so it runs after the jobs were stored, and
 * takes what any claim would take then. It tries the locks first: an enqueue must not wait for a pause.
 */
const STORE_AND_CLAIM = `WITH stored AS MATERIALIZED (SELECT ${STORE_JOBS}::text AS done,
    (SELECT bool_and(pg_try_advisory_xact_lock_shared(hashtext('sluice.held'), hashtext(q)))
     FROM unnest($${STORED + 1}::text[]) q) AS free)
  SELECT c.* FROM stored, LATERAL ${claimOpenCall(STORED + 1, 'left(stored.done, 0)')} c WHERE stored.free`

/**
 * Writes simultaneous enqueues in one statement. Jobs that an earlier try stored are not stored twice, even if its
 * answer was lost. A claim of this process may join the statement: then a job can start in the commit that stores it.
 */
export class BatchedEnqueues {
  readonly #context: Context
  readonly #clock: Clock
  readonly #notifier: Notifier
  readonly #batch = new Batch<NewJob, Enqueued>((jobs) => this.#send(jobs))
  /** The statement that leaves next has jobs which a claim may start at once. */
  #mayStart = false
  #passenger: Passenger | null = null
  /** Claims that were written and not answered yet. */
  #answering = 0

  constructor(context: Context, clock: Clock, notifier: Notifier) {
    this.#context = context
    this.#clock = clock
    this.#notifier = notifier
  }

  get pending(): boolean {
    return this.#batch.pending || this.#answering > 0
  }

  /** Whether a claim made now could start jobs in the commit that stores them. */
  get takesClaim(): boolean {
    return this.#mayStart && this.#passenger === null && this.#batch.isLeaving
  }

  add(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    const answers = this.#batch.add(jobs)
    this.#mayStart ||= this.#context.onlyOpen && jobs.every(isPlain)
    return answers
  }

  /** Joins a claim to the statement that leaves next. Null: the claim is still to be made. */
  claim(ask: () => ClaimRequest): Promise<Claim | null> | null {
    if (!this.takesClaim) return null
    return new Promise((resolve, reject) => {
      this.#passenger = { ask, resolve, reject }
    })
  }

  async #send(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    const passenger = this.#passenger
    this.#passenger = null
    this.#mayStart = false
    const write = (again: boolean): Promise<Written> =>
      this.#context.db.session(async (db) => {
        const written = again
          ? { answers: await enqueueAgain(this.#context, db, jobs), claim: null }
          : await this.#write(db, jobs, passenger)
        await recordQueuesOf(this.#context, db)
        return written
      })
    let tries = 0
    const once = async (again: boolean): Promise<Written> => {
      try {
        return await write(again)
      } catch (error) {
        if (passenger && tries++ === 0) this.#answer(() => refuse(passenger, error))
        throw error
      }
    }
    const { answers, claim } = await whenReachable(this.#clock, once, READ_GIVE_UP_MS)
    const started = new Set(claim?.jobs.map(({ id }) => id))
    if (jobs.some(({ id }) => !started.has(id))) this.#notifier.notify('work')
    // The callers of `enqueue` come first: a job is reported as stored before its start is.
    if (passenger && tries === 0) this.#answer(() => passenger.resolve(claim))
    return answers
  }

  async #write(db: Statements, jobs: readonly NewJob[], passenger: Passenger | null): Promise<Written> {
    const request = passenger?.ask()
    if (!request || !this.#mayJoin(request, jobs))
      return { answers: await enqueueAutocommit(this.#context, db, jobs), claim: null }
    for (const { queue } of jobs) this.#context.queues.met(queue)
    const rows = await autocommit(this.#context, db, () =>
      db.all<StartRow>(STORE_AND_CLAIM, ...valuesOf(this.#context, jobs), ...openTerms(this.#context, request)),
    )
    const claim = await openClaim(this.#context, db, request, rows)
    return { answers: jobs.map(({ id }) => ({ kind: 'created', id })), claim }
  }

  #mayJoin(request: ClaimRequest, jobs: readonly NewJob[]): boolean {
    const hasSlot = ({ queue }: NewJob): boolean =>
      request.queues.some((each) => each.queue === queue && each.slots > 0)
    return jobs.every(isPlain) && jobs.some(hasSlot) && mayClaimOpen(this.#context, request)
  }

  #answer(answer: () => void): void {
    this.#answering++
    setImmediate(() => {
      this.#answering--
      answer()
    })
  }
}

/** Without limits, times and keys: such a job may start at once, and storing it locks nothing. */
function isPlain({ delayUs, expiresAtMs, fairKey, occurrence, runAtMs, terms, unique, uses }: NewJob): boolean {
  const isTimed = runAtMs !== null || delayUs !== undefined || expiresAtMs !== null
  return uses.length === 0 && !isTimed && unique === null && !terms && !occurrence && (fairKey ?? null) === null
}

/** If the statement failed for certain, the claim is still to be made. Otherwise it may have been written. */
function refuse(passenger: Passenger, error: unknown): void {
  if (mayPass(error)) passenger.reject(error)
  else passenger.resolve(null)
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
    await db.all(`SELECT ${STORE_JOBS}`, ...valuesOf(context, jobs))
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

/**
 * Repeats work that places jobs if the pace of ageing has changed meanwhile; the connection must stay usable after an
 * error.
 */
export async function autocommit<T>(context: Context, db: Statements, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (codeOf(error) !== 'SL003') throw error
    await currentLimits(context, db)
    return work()
  }
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
