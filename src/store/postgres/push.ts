import type { PgValue, Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import { codeOf } from '../../database/postgres-error.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { PushAnswer, StoredAs } from '../contract/remote-jobs.ts'
import type { QueueDepth } from '../contract/queues.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { Context } from './context.ts'
import { isNews } from '../shared/limit-changes.ts'
import { defineLimits } from '../shared/limits.ts'
import { readAsync } from '../shared/reading.ts'
import { accessOf } from './shared-sql.ts'
import { ageingText, columnsOf, INSERT_JOBS, jobsText } from './job-columns.ts'
import { currentLimits } from './limit-timelines.ts'
import { recordQueuesOf } from './queues.ts'

type Refusal = Omit<Extract<PushAnswer, { kind: 'refused' }>, 'kind'>
type Row = [refused: string | null, depths: string | null, answers: string | null]

/**
 * Errors with which a push is tried again: limits or the pace of ageing changed meanwhile, a given id was stored, or
 * transactions deadlocked.
 */
const TRY_AGAIN = new Set(['SL003', '23505', '40P01', '40001'])
const TRIES = 20

/** The error for a push with a job that cannot be stored. It rolls the whole push back. */
class RefusedPush extends Error {
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super('the push was refused')
    this.refusal = refusal
  }
}

/**
 * Stores jobs and defines their limits, all or nothing: one statement, unless other processes have to learn of a new
 * limit.
 */
export async function push(
  context: Context,
  db: Statements,
  jobs: readonly NewJob[],
  limits: readonly LimitDefinition[],
): Promise<PushAnswer> {
  for (let tries = 1; ; tries++) {
    try {
      for (const { queue } of jobs) context.queues.met(queue)
      const answer = limits.some((each) => isNews(context.limits.timeline(each.name), each))
        ? await defineAndStore(context, db, jobs, limits)
        : await store(context, db, jobs)
      await recordQueuesOf(context, db)
      return answer
    } catch (error) {
      const code = codeOf(error)
      if (error instanceof RefusedPush) return { kind: 'refused', ...error.refusal }
      if (code === 'SL004') return { kind: 'refused', ...(JSON.parse((error as Error).message) as Refusal) }
      if (tries >= TRIES || !TRY_AGAIN.has(code ?? '')) throw error
      await currentLimits(context, db)
    }
  }
}

/** Locks unique keys first: waiting for one must not block the claims that wait for these limits. */
async function defineAndStore(
  context: Context,
  db: Statements,
  jobs: readonly NewJob[],
  limits: readonly LimitDefinition[],
): Promise<PushAnswer> {
  // No other transaction sees a definition before the commit.
  const own = { ...context }
  const answer = await inTransaction(db, async (its) => {
    const keys = keysOf(jobs)
    if (keys.length > 0) await its.run('SELECT sluice.lock_unique($1::text[])', keys)
    await readAsync(defineLimits(accessOf(own, its), limits))
    await currentLimits(own, its)
    return store(own, its, jobs)
  })
  if (own.limits.generation > context.limits.generation) context.limits = own.limits
  return answer
}

async function store(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<PushAnswer> {
  if (jobs.length === 0) return { kind: 'stored', answers: [], depths: [] }
  const keys = keysOf(jobs)
  const alike = keys.length === 0
  const values: PgValue[] = alike ? columnsOf(context, jobs) : [jobsText(context, jobs), context.retention.cancelledUs]
  const call = alike ? `array_to_json(${INSERT_JOBS})::text` : 'sluice.enqueue_whole($1::json, $2::bigint)::text'
  const [given, queues, locked, generation, ageing] = [1, 2, 3, 4, 5].map((n) => `$${values.length + n}`)
  const rows = await db.call<Row>(
    `SELECT o.refused::text, o.depths::text, CASE WHEN o.refused IS NULL THEN ${call} END
     FROM sluice.check_offer(${given}::uuid[], ${queues}::text[], ${locked}::text[], ${generation}::bigint) o, sluice.check_ageing(${ageing})`,
    ...values,
    jobs.map(({ id, terms }) => (terms?.givenId ? id : null)),
    jobs.map(({ queue }) => queue),
    keys,
    context.limits.generation,
    ageingText(context),
  )
  const [refused, depths, answers] = rows[0] as Row
  if (refused !== null) throw new RefusedPush(JSON.parse(refused) as Refusal)
  const level = depths === null ? [] : (JSON.parse(depths) as QueueDepth[])
  if (!alike) return { kind: 'stored', answers: JSON.parse(answers ?? '[]') as StoredAs[], depths: level }
  const [nowUs, wallUs] = JSON.parse(answers ?? '[]') as [number, number]
  return {
    kind: 'stored',
    answers: jobs.map(({ id }) => ({ kind: 'created', id })),
    depths: level,
    at: { nowUs, wallUs },
  }
}

function keysOf(jobs: readonly NewJob[]): string[] {
  return jobs.flatMap(({ unique }) => unique?.key ?? [])
}

/**
 * The same after an earlier try whose answer was lost. If that try stored it, the jobs exist, and none is older than
 * the push.
 */
export async function pushAgain(
  context: Context,
  db: Statements,
  jobs: readonly NewJob[],
  limits: readonly LimitDefinition[],
  sinceUs: number,
): Promise<PushAnswer> {
  const rows = await db.all<[string]>(
    'SELECT id FROM sluice.jobs WHERE id = ANY ($1::uuid[]) AND created >= $2',
    jobs.map(({ id }) => id),
    sinceUs,
  )
  if (rows.length === 0) return push(context, db, jobs, limits)
  return { kind: 'stored', answers: jobs.map(({ id }) => ({ kind: 'created', id })), depths: [] }
}
